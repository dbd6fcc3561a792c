/**
 * Shows what is in the context of a session, in a browser. Nothing leaves this machine.
 *
 *     npm run view -- FILE      a transcript of s06 or a session of Claude Code
 *     npm run view -- FOLDER    the newest .jsonl file in it and in the folders below it
 *     npm run view              the newest of .transcripts/; if there is none, the recorded demo
 *
 * BROWSER=none only prints the address.
 */
import { spawn } from "node:child_process";
import { createReadStream, existsSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { sessionFiles } from "../bench/sessions.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const TRANSCRIPTS = ".transcripts";

/** @throws if there is no such session */
function sessionFile(path?: string): string {
  const isOwn = existsSync(TRANSCRIPTS) && readdirSync(TRANSCRIPTS).some((name) => name.endsWith(".jsonl"));
  const [newest = ""] = sessionFiles(path ?? (isOwn ? TRANSCRIPTS : join(HERE, "demo.jsonl")));
  return newest;
}

/** The viewer as files of a page: the worker keeps the name that main.ts asks for. */
async function bundle(): Promise<Map<string, string>> {
  const entryPoints = ["page.ts", "worker.ts", "style.css"].map((name) => join(HERE, name));
  const { outputFiles } = await build({
    entryPoints,
    outdir: HERE,
    bundle: true,
    minify: true,
    format: "esm",
    write: false,
  });
  return new Map(outputFiles.map(({ path, text }) => [`/${basename(path).replace("worker.js", "worker.ts")}`, text]));
}

const pageOf = (name: string) => `<!doctype html>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${name}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css">
<style>body { margin: 0; } .dark body { background: #1b1b1f; }</style>
<script type="module" src="page.js"></script>
<main></main>
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
  const file = sessionFile(process.argv[2]);
  const files = (await bundle()).set("/", pageOf(basename(file).replace(/[&<]/g, "_")));
  const types: Record<string, string> = { "/": "text/html", "/style.css": "text/css" };
  const server = createServer(({ url = "", headers }, response) => {
    const text = files.get(url);
    const isOwn = headers.host?.startsWith("127.0.0.1:"); // another name would be a site that points here
    if (isOwn && url === "/session") createReadStream(file).pipe(response);
    else if (!isOwn || text === undefined) response.writeHead(404).end();
    else response.writeHead(200, { "content-type": `${types[url] ?? "text/javascript"}; charset=utf-8` }).end(text);
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
