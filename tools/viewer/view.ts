/**
 * Shows what is in the context of a session, in a browser. Nothing leaves this machine.
 *
 *     npm run view -- FILE      a transcript of s06 or a session of Claude Code
 *     npm run view -- FOLDER    the sessions in it and in the folders below it, to choose from; the newest is open
 *     npm run view              the newest of .transcripts/ and .offline/.transcripts/; if there is none, the recorded demo
 *
 * A session that is being written is followed. BROWSER=none only prints the address.
 */
import { spawn } from "node:child_process";
import { createReadStream, existsSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { filesIn, newestFirst, sessionFiles, subagentsIn } from "../trace/files.ts";
import { readTimeline } from "../trace/read-timeline.ts";
import type { Listed } from "./sessions-list.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const OWN = [".transcripts", join(".offline", ".transcripts")];
const MOST_LISTED = 100; // sessions, and the files of their subagents

/** Where to look for sessions. */
function placesFor(path?: string): string[] {
  if (path) return [path];
  const own = OWN.filter((folder) => existsSync(folder) && filesIn(folder).length > 0);
  return own.length > 0 ? own : [join(HERE, "../docs/runs/demo.jsonl")];
}

/** The sessions, newest first, each with the files of its subagents. @throws if there is no such session */
function filesFor(path?: string): { file: string; parent?: string }[] {
  const places = placesFor(path);
  const main = newestFirst(places.flatMap(sessionFiles)).slice(0, MOST_LISTED);
  const folders = places.map((place) => (statSync(place).isFile() ? dirname(place) : place));
  const children = folders.flatMap(subagentsIn).filter(({ file }) => !main.includes(file));
  return main.flatMap((file) => [{ file }, ...children.filter(({ parent }) => parent === file)]);
}

/** What the list shows, a line of JSON for each session, as soon as it is read. */
async function* list(files: { file: string; parent?: string }[]): AsyncGenerator<string> {
  for (const each of files) {
    const { moments, compactions, requests, blocks } = readTimeline(await readFile(each.file, "utf8"));
    if (blocks.length === 0) continue;
    const request = blocks[requests[0]?.block ?? 0]?.label ?? "";
    const time = moments.at(-1)?.time ?? statSync(each.file).mtimeMs;
    const row: Listed = { ...each, time, request, calls: moments.length, compactions: compactions.length };
    yield `${JSON.stringify(row)}\n`;
  }
}

/** A session as it is now, unless the browser has that already. */
async function send(file: string, known: string | undefined, response: ServerResponse): Promise<void> {
  const { size, mtimeMs } = statSync(file);
  const etag = `"${size}-${mtimeMs}"`;
  if (known === etag) response.writeHead(304).end();
  else await pipeline(createReadStream(file), response.setHeader("etag", etag));
}

/** The viewer as files of a page: the worker keeps the name that main.ts asks for. */
async function bundle(): Promise<Map<string, string>> {
  const entryPoints = ["page.ts", "worker.ts", "style.css"].map((name) => join(HERE, name));
  const options = { bundle: true, minify: true, format: "esm", write: false } as const;
  const { outputFiles } = await build({ ...options, entryPoints, outdir: HERE });
  return new Map(outputFiles.map(({ path, text }) => [`/${basename(path).replace("worker.js", "worker.ts")}`, text]));
}

const escaped = (text: string) => text.replace(/[&<"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
const pageOf = (file: string, isFolder: boolean) => `<!doctype html>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escaped(basename(file))}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css">
<style>:root { background: light-dark(#fff, #1b1b1f); color-scheme: light dark; } body { margin: 0; }</style>
<script type="module" src="page.js"></script>
<main data-file="${escaped(file)}"${isFolder ? " data-choose" : ""}></main>
`;

function openBrowser(url: string): void {
  if (process.env.BROWSER === "none") return;
  const openers: Record<string, string> = { darwin: "open", win32: "explorer" };
  const command = openers[process.platform] ?? "xdg-open";
  const child = spawn(command, [url], { stdio: "ignore", detached: true });
  child.on("error", () => {}); // there is none; the address is printed
  child.unref();
}

async function main(): Promise<void> {
  const path = process.argv[2];
  let sessions = filesFor(path);
  const file = sessions[0]?.file ?? "";
  const files = (await bundle()).set("/", pageOf(file, path !== undefined && path !== file));
  const types: Record<string, string> = { "/": "text/html", "/style.css": "text/css" };
  async function answer({ url = "", headers }: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(url, "http://127.0.0.1");
    const asked = searchParams.get("file") ?? file;
    const isListed = sessions.some((each) => each.file === asked);
    const text = files.get(pathname);
    if (pathname === "/sessions") {
      sessions = filesFor(path);
      await pipeline(list(sessions), response);
    } else if (pathname === "/session" && isListed) await send(asked, headers["if-none-match"], response);
    else if (text) response.setHeader("content-type", `${types[url] ?? "text/javascript"}; charset=utf-8`).end(text);
    else response.writeHead(404).end();
  }
  const server = createServer((request, response) => {
    const isOwn = request.headers.host?.startsWith("127.0.0.1:"); // another name would be a site that points here
    if (isOwn)
      answer(request, response).catch(() => response.destroy()); // the file is gone, or the page is
    else response.writeHead(404).end();
  });
  server.listen(0, "127.0.0.1", () => {
    const address = server.address();
    const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/`;
    console.log(`${url} shows ${file}; Ctrl-C ends it`);
    openBrowser(url);
  });
}

main().catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});
