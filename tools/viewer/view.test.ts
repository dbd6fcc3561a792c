/** `npm run view` as a process of its own: what it opens, lists, serves and follows. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { linesOf, own, reply, text, user } from "../trace/test-lines.ts";
import type { ListedSession } from "./sessions-list.ts";
import type { LoadRequest, WorkerReply } from "./worker.ts";

const root = mkdtempSync(join(tmpdir(), "viewer-"));
after(() => rmSync(root, { recursive: true }));

const program = fileURLToPath(new URL("view.ts", import.meta.url));
const command = (path?: string) => ["--import", import.meta.resolve("tsx"), program, ...(path ? [path] : [])];
const env = { ...process.env, BROWSER: "none" };

/** Starts `npm run view` and waits for its address. */
async function serve(cwd: string, path?: string, INIT_CWD = cwd) {
  const child = spawn(process.execPath, command(path), { cwd, env: { ...env, INIT_CWD } });
  const ended = new Promise((resolve) => child.on("close", resolve));
  after(() => child.kill());
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const [, url = "", file = ""] = await new Promise<string[]>((resolve) => {
    child.stdout.setEncoding("utf8").on("data", (out: string) => resolve(/^(\S+) shows (.*);/.exec(out) ?? []));
  });
  const get = async (path: string) => (await fetch(url + path)).text();
  const listSessions = async (): Promise<ListedSession[]> => {
    const lines = (await get("sessions")).trimEnd().split("\n");
    return lines.map((line) => JSON.parse(line));
  };
  /** Returns what was printed on stderr. */
  const end = async () => {
    child.kill();
    await ended;
    return errors;
  };
  return { url, file, get, listSessions, end };
}

/** A transcript of s06 with some model calls. */
const transcript = (calls: number, request = "Look.") =>
  linesOf(own(user(request)), ...Array(calls).fill(own(reply(text("Done.")))));

function write(file: string, content: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
}

test("the newest run opens, and a subagent is listed below its parent", async () => {
  const cwd = join(root, "repo");
  const offline = ".offline/.transcripts/transcript_200_8.jsonl";
  const child = ".offline/.transcripts/tasks/transcript_201_8.jsonl";
  const older = ".transcripts/transcript_100_7.jsonl";
  for (const file of [older, offline, child]) write(join(cwd, file), transcript(1, `In ${file}.`));
  utimesSync(join(cwd, older), 1, 1);
  const { url, file, get, listSessions, end } = await serve(cwd);
  assert.equal(file, `your newest session, ${offline}`);
  const rows = (await listSessions()).map(({ file, parent, request, calls }) => [file, parent, request, calls]);
  assert.deepEqual(rows, [
    [offline, undefined, `In ${offline}.`, 1],
    [child, offline, `In ${child}.`, 1],
    [older, undefined, `In ${older}.`, 1],
  ]);
  assert.equal(await get("session"), readFileSync(join(cwd, offline), "utf8"));
  for (const file of ["page.js", "worker.ts", "style.css"]) assert.ok((await get(file)).length > 1_000, file);
  const statusOf = async (name: string) => (await fetch(`${url}session?file=${encodeURIComponent(name)}`)).status;
  assert.deepEqual([await statusOf(child), await statusOf("/etc/passwd")], [200, 404]);
  await end();
});

test("without a session of one's own the recorded demo opens, and the page has its name", async () => {
  const { file, get, end } = await serve(mkdtempSync(join(root, "none-")));
  assert.equal(file, "the recorded demo");
  assert.match(await get(""), /&#34;opened&#34;:&#34;demo&#34;/);
  await end();
});

test("a path is one of the folder in which npm was started, and the page answers by both names of this machine", async () => {
  write(join(root, "sub", "one.jsonl"), transcript(1));
  const { url, file, end } = await serve(root, "one.jsonl", join(root, "sub"));
  assert.equal(file, join(root, "sub", "one.jsonl"));
  const { port } = new URL(url);
  const statusOf = (host: string) =>
    new Promise((resolve) => get({ port, headers: { host } }, ({ statusCode }) => resolve(statusCode)));
  const hosts = [`localhost:${port}`, "localhost:8080", `127.0.0.1:${port}`, `example.com:${port}`];
  assert.deepEqual(await Promise.all(hosts.map(statusOf)), [200, 200, 200, 404]);
  await end();
});

test("files that can't be shown are named on the page and in the terminal, and the newest good one opens", async () => {
  const cwd = join(root, "bad");
  const contents = { "half.jsonl": `${transcript(2)}{"mess`, "empty.jsonl": "", "binary.jsonl": "\0\u0001PNG\0" };
  for (const [name, content] of Object.entries(contents)) write(join(cwd, name), content);
  utimesSync(join(cwd, "half.jsonl"), 1, 1);
  const { file, listSessions, end } = await serve(cwd, cwd);
  assert.equal(file, join(cwd, "half.jsonl"));
  const rows = await listSessions();
  const errors = await end();
  for (const name of Object.keys(contents)) {
    const row = rows.find((each) => each.file === join(cwd, name));
    assert.ok(row?.problem, name);
    assert.ok(errors.includes(`${join(cwd, name)} ${row.problem}`), errors);
  }
  const calls = rows.map((row) => row.calls);
  assert.deepEqual(calls, [0, 0, 2]);
});

test("the worker follows a file that grows, starts over when it shrinks and reports that the server is gone", async () => {
  const file = join(root, "growing.jsonl");
  writeFileSync(file, transcript(2));
  const { url, end } = await serve(root, file);
  const answers: WorkerReply[] = [];
  const shares: number[] = [];
  let wake = () => {};
  let ask: (event: { data: LoadRequest }) => void = () => {};
  const self = { addEventListener: (_: string, listener: typeof ask) => (ask = listener) };
  const postMessage = (answer: WorkerReply) => {
    if ("progress" in answer) return shares.push(answer.progress);
    answers.push(answer);
    wake();
  };
  Object.assign(globalThis, { self, postMessage });
  await import("./worker.ts");
  const nextAnswer = async () => {
    if (answers.length === 0) await new Promise<void>((resolve) => (wake = resolve));
    const answer = answers.shift() ?? assert.fail();
    return "modelCalls" in answer ? [answer.modelCalls.length, answer.isNew] : answer;
  };
  ask({ data: { name: "growing.jsonl", url: `${url}session`, isLive: true } });
  assert.deepEqual(await nextAnswer(), [2, true]);
  assert.deepEqual(shares.slice(0, 2), [0.5, 0.625]); // all of it is read, and the first of four lines is parsed
  appendFileSync(file, transcript(3).slice(transcript(2).length));
  assert.deepEqual(await nextAnswer(), [3, false]);
  writeFileSync(file, transcript(1));
  assert.deepEqual(await nextAnswer(), [1, true]);
  await end();
  assert.ok(Object.hasOwn(Object(await nextAnswer()), "error"));
});
