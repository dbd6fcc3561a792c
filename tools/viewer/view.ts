/**
 * Shows in a browser what was in the context of a session. Nothing leaves this machine.
 *
 *     npm run view -- FILE      a transcript of s06 or a session of Claude Code
 *     npm run view -- FOLDER    the newest session in a folder and below, and a list of the others
 *     npm run view              your newest session in .transcripts/ or .offline/.transcripts/, or else the recorded demo
 *
 * Reload the page to see more of a session that is still being written. BROWSER=none prints the address without opening a browser.
 */
import { spawn } from "node:child_process";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { basename } from "node:path";
import { setImmediate } from "node:timers/promises";
import { html, type Markup } from "../draw/markup.ts";
import { shownPath } from "../sessions/files.ts";
import { selectionIn } from "./address.ts";
import { makePage, makeSessionPage } from "./page.ts";
import { countOf, findSessions, listRows, openSession, placesToSearch, type SessionName } from "./sessions.ts";

/** Returns the newest session that can be shown, and names those that can't. Throws if there is none. */
function firstGood(files: string[]): string {
  for (const file of files) {
    const session = openSession(file);
    if ("timeline" in session) return file;
    console.error(`${shownPath(file)} ${session.problem}`);
  }
  throw new Error("there is nothing to show; name a transcript of s06, a session of Claude Code, or a folder of them");
}

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

const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
};

/** Where sessions are, those that were found last, and the one that opens first. */
type Found = { places: string[]; sessions: SessionName[]; first: string };

/** Throws if there is nothing at this address. */
function sessionPage(query: URLSearchParams, { sessions, first }: Found): Markup {
  const file = query.get("file") ?? first;
  if (!sessions.some((each) => each.file === file)) throw new Error(`${shownPath(file)} isn't one of the sessions`);
  const session = openSession(file);
  if ("problem" in session) throw new Error(`${shownPath(file)} ${session.problem}`);
  const subagents = sessions.filter(({ parent }) => parent === file).length;
  const about = {
    name: shownPath(basename(file)),
    file: file === first ? undefined : file,
    list: sessions.length > 1 ? countOf(sessions) : undefined,
    subagents,
  };
  return makeSessionPage({ ...session, ...about }, selectionIn(query));
}

/** Sends the list row by row, since some sessions take long to read. */
async function sendList(response: ServerResponse, found: Found): Promise<void> {
  const sessions = findSessions(found.places);
  found.sessions = sessions;
  const gap = "<!-- rows -->";
  const title = countOf(sessions);
  const heading = html`<header><h1>${title}</h1><p class="facts">${found.places.map(shownPath).join(", ")}</p></header>`;
  const body = html`${heading}<main>${{ markup: gap }}</main>`;
  const [head = "", tail = ""] = makePage(title, body).markup.split(gap);
  response.writeHead(200, HEADERS).write(head);
  for (const { markup } of listRows(sessions)) {
    response.write(markup);
    await setImmediate();
  }
  response.end(tail);
}

async function respond({ url = "" }: IncomingMessage, response: ServerResponse, found: Found): Promise<void> {
  try {
    const { pathname, searchParams } = new URL(url, "http://127.0.0.1");
    if (pathname === "/sessions") return await sendList(response, found);
    if (pathname !== "/") throw new Error(`there is no page ${pathname}`);
    const page = sessionPage(searchParams, found);
    response.writeHead(200, HEADERS).end(page.markup);
  } catch (error) {
    const reason = error instanceof Error ? error.message : `${error}`;
    const page = makePage(
      "Not found",
      html`<main><h1>Not found</h1><p>${reason}</p><p><a href="/">back</a></p></main>`,
    );
    if (response.headersSent) response.end();
    else response.writeHead(404, HEADERS).end(page.markup);
  }
}

function serve(path?: string): void {
  const places = placesToSearch(path);
  const sessions = findSessions(places);
  const found = { places, sessions, first: firstGood(sessions.map(({ file }) => file)) };
  const server = createServer((request, response) => {
    if (isOwn(request)) void respond(request, response, found);
    else response.writeHead(404).end();
  });
  server.listen(0, "127.0.0.1", () => {
    const address = server.address();
    const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/`;
    console.log(`${url} shows ${shownPath(found.first)}; Ctrl-C ends it`);
    openBrowser(url);
  });
}

try {
  const [path] = process.argv.slice(2);
  if (path === "--help")
    console.log("npm run view -- [FILE or FOLDER]   without one: your newest session, or the demo");
  else serve(path);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
