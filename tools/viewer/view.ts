/**
 * Shows in a browser what was in the context of a session. Nothing leaves this machine.
 *
 *     npm run view -- FILE      a transcript of s06 or a session of Claude Code
 *     npm run view -- FOLDER    lists the sessions in a folder and below, and opens the newest
 *     npm run view              opens your newest session in .transcripts/ or .offline/.transcripts/, or else the recorded demo
 *
 * The page follows a session that is still being written. BROWSER=none prints the address without opening a browser.
 */
import { spawn } from "node:child_process";
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { filesIn, newestFirst, readSessionFile, sessionFiles, subagentsIn, userPath } from "../trace/files.ts";
import { timelineOf } from "../trace/read-timeline.ts";
import { readRecording } from "../trace/recording.ts";
import { escapeHtml } from "./format.ts";
import { labelOf } from "./labels.ts";
import { WORDS } from "./languages.ts";
import { totalCost } from "./large-figures.ts";
import type { ListedSession, Served } from "./sessions-list.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const OWN = [".transcripts", join(".offline", ".transcripts")];
const MOST_LISTED = 100; // sessions, not counting subagents

type Search = { places: string[]; opened: Served["opened"]; isFolder: boolean };

function placesToSearch(path?: string): Search {
  if (path !== undefined) {
    const place = userPath(path);
    const isFolder = statSync(place, { throwIfNoEntry: false })?.isDirectory() ?? false;
    return { places: [place], opened: "file", isFolder };
  }
  const own = OWN.filter((folder) => existsSync(folder) && filesIn(folder).length > 0);
  if (own.length > 0) return { places: own, opened: "newest", isFolder: false };
  return { places: [join(HERE, "../docs/runs/demo.jsonl")], opened: "demo", isFolder: false };
}

/** Returns the sessions, newest first, each followed by its subagents. Throws if there are none. */
function findSessions({ places }: Search): { file: string; parent?: string }[] {
  const main = newestFirst(places.flatMap(sessionFiles)).slice(0, MOST_LISTED);
  const folders = places.map((place) => (statSync(place).isFile() ? dirname(place) : place));
  const children = folders.flatMap(subagentsIn).filter(({ file }) => !main.includes(file));
  return main.flatMap((file) => [{ file }, ...children.filter(({ parent }) => parent === file)]);
}

const LARGE = 1_000_000; // bytes: it could take half a minute to read such a file just to know that it's a session
const isSession = (file: string) => statSync(file).size > LARGE || readSessionFile(file).recording !== undefined;

/** Yields a row of JSON as soon as each session has been read. */
async function* listSessions(files: { file: string; parent?: string }[]): AsyncGenerator<string> {
  for (const each of files) {
    const { recording, problem } = readSessionFile(each.file);
    if (problem) console.error(`${each.file} ${problem}`);
    const timeline = timelineOf(recording ?? readRecording(""));
    const { modelCalls, compactions, requests, blocks } = timeline;
    const first = requests[0]?.block ?? blocks[0];
    const request = first ? labelOf(first) : "";
    const time = modelCalls.at(-1)?.time ?? statSync(each.file).mtimeMs;
    const counts = { calls: modelCalls.length, compactions: compactions.length, dollars: totalCost(timeline) };
    yield `${JSON.stringify({ ...each, problem, time, request, ...counts } satisfies ListedSession)}\n`;
  }
}

/** Sends a session unless the browser already has this version. */
async function sendSession(file: string, known: string | undefined, response: ServerResponse): Promise<void> {
  const { size, mtimeMs } = statSync(file);
  const etag = `"${size}-${mtimeMs}"`;
  if (known === etag) response.writeHead(304).end();
  else {
    const stream = createReadStream(file, { end: Math.max(0, size - 1) }); // the file may grow meanwhile
    await pipeline(stream, response.writeHead(200, { etag, "content-length": size }));
  }
}

/** Bundles the page's files. main.ts loads the worker by the URL of its source, so the bundle is served under that name. */
async function bundle(): Promise<Map<string, string>> {
  const entryPoints = ["page.ts", "worker.ts", "style.css"].map((name) => join(HERE, name));
  const options = { bundle: true, minify: true, format: "esm", write: false } as const;
  const { outputFiles } = await build({ ...options, entryPoints, outdir: HERE });
  return new Map(outputFiles.map(({ path, text }) => [`/${basename(path).replace("worker.js", "worker.ts")}`, text]));
}

const makePage = (served: Served) => `<!doctype html>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(basename(served.file))}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css">
<style>
  :root { background: light-dark(#fff, #1b1b1f); color-scheme: light dark; font-family: ui-sans-serif, system-ui, sans-serif; }
  body { margin: 12px; }
</style>
<script type="module" src="page.js"></script>
<main data-served="${escapeHtml(JSON.stringify(served))}"></main>
`;

function openBrowser(url: string): void {
  if (process.env.BROWSER === "none") return;
  const openers: Record<string, string> = { darwin: "open", win32: "explorer" };
  const command = openers[process.platform] ?? "xdg-open";
  const child = spawn(command, [url], { stdio: "ignore", detached: true });
  child.on("error", () => {}); // no browser here, but the address is printed
  child.unref();
}

/** Any other name of the host is a web site pointed at this port. */
const isOwn = ({ headers }: IncomingMessage) => /^(127\.0\.0\.1|localhost)(:\d+)?$/.test(headers.host ?? "");

async function main(): Promise<void> {
  if (process.argv[2] === "--help")
    return console.log("npm run view -- [FILE or FOLDER]   without one: your newest session, or the demo");
  const search = placesToSearch(process.argv[2]);
  const { opened, isFolder } = search;
  let sessions = findSessions(search);
  const [newest] = sessions;
  const { file = "" } = sessions.find((each) => isSession(each.file)) ?? newest ?? {};
  const files = (await bundle()).set("/", makePage({ file, opened, count: sessions.length, isOpen: isFolder }));
  const types: Record<string, string> = { "/": "text/html", "/style.css": "text/css" };
  async function respond({ url = "", headers }: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(url, "http://127.0.0.1");
    const asked = searchParams.get("file") ?? file;
    const isListed = sessions.some((each) => each.file === asked);
    const text = files.get(pathname);
    if (pathname === "/sessions") {
      sessions = findSessions(search);
      await pipeline(listSessions(sessions), response);
    } else if (pathname === "/session" && isListed) await sendSession(asked, headers["if-none-match"], response);
    else if (text)
      response.setHeader("content-type", `${types[pathname] ?? "text/javascript"}; charset=utf-8`).end(text);
    else response.writeHead(404).end();
  }
  const server = createServer((request, response) => {
    if (isOwn(request))
      respond(request, response).catch(() => response.destroy()); // the file or the page is gone
    else response.writeHead(404).end();
  });
  server.listen(0, "127.0.0.1", () => {
    const address = server.address();
    const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/`;
    console.log(`${url} shows ${WORDS.en.opened[opened](file)}; Ctrl-C ends it`);
    openBrowser(url);
  });
}

main().catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});
