/**
 * Every lesson as a program under every runtime that it promises to run under: one request, carried out offline, for each
 * pair. `npm run test:runtimes` installs the runtimes beside this file first; they are programs out of npm packages.
 */
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import { type Reply, scripted, startServer } from "../../tools/api/server.ts";
import { bash, call, isRunning, say, use } from "../harness.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const AGENTS = fileURLToPath(new URL("../../agents", import.meta.url));
const PLATFORM = `${process.platform}-${process.arch}`;

/** `args` are what a person has to write between the runtime's name and the lesson's. */
type Runtime = { name: string; alias: string; program: string; args: string[] };
const RUNTIMES: Runtime[] = [
  { name: "Node 20 with tsx", alias: "node20", program: "bin/node", args: ["--import", import.meta.resolve("tsx")] },
  { name: "Node 22", alias: "node22", program: "bin/node", args: [] },
  { name: "Node 24", alias: "node24", program: "bin/node", args: [] },
  { name: "Node 26", alias: "node26", program: "bin/node", args: [] },
  { name: "Deno 2", alias: "deno", program: "deno", args: ["run", "-A"] },
  { name: "Bun", alias: "bun", program: "bin/bun", args: [] },
];

/** Node before 24.3 (of the packages here, the one for Apple's processors) says this whenever it runs TypeScript. */
const NOTICE =
  /^\(node:\d+\) ExperimentalWarning: Type Stripping is an experimental feature.*\n\(Use `node --trace-warnings .*\n/;

function programOf(runtime: Runtime): string {
  const program = join(HERE, "node_modules", `${runtime.alias}-${PLATFORM}`, runtime.program);
  const way = `npm ci --prefix tests/runtimes installs it, if package.json there has it for ${PLATFORM}`;
  assert.ok(existsSync(program), `${runtime.name} is not installed; ${way}`);
  return program;
}

// What the model says in each lesson, so that the lesson uses what it teaches.

const ANSWER = "That is done: 完成.";
const SKILL = "---\nname: greeting\ndescription: How to greet\n---\nSay hello to all.\n";
const PAGE = "a page of a long book, ".repeat(300).trim(); // less is not worth a summary

/** What there is when a lesson has ended: its folder, the requests as sent, and what its tools returned. */
type Ended = { folder: string; requests: Anthropic.MessageCreateParams[]; results: string[] };
type Play = { replies: Reply[]; check: (ended: Ended) => void };

const PLAYS: Record<string, Play> = {
  s01: {
    replies: [bash("echo made by bash | tee made.txt; exit 3"), say(ANSWER)],
    check({ folder, results }) {
      assert.deepEqual(results, ["made by bash\n(exit code 3)"]);
      assert.equal(readFileSync(join(folder, "made.txt"), "utf8"), "made by bash\n");
    },
  },
  s02: {
    replies: [
      call(
        use("write_file", { path: "notes/made.txt", content: "one\ntwo 二\n" }),
        use("edit_file", { path: "notes/made.txt", old_text: "one", new_text: "$& 一" }),
        use("read_file", { path: "notes/made.txt", offset: 2 }),
      ),
      say(ANSWER),
    ],
    check({ folder, results }) {
      assert.deepEqual(results, ["Wrote 12 bytes to notes/made.txt", "Edited notes/made.txt", "two 二"]);
      assert.equal(readFileSync(join(folder, "notes/made.txt"), "utf8"), "$& 一\ntwo 二\n");
      assert.deepEqual(readdirSync(join(folder, "notes")), ["made.txt"]);
    },
  },
  s03: {
    replies: [
      call(
        use("todo", {
          items: [
            { text: "write it", status: "completed" },
            { text: "run it", status: "in_progress" },
          ],
        }),
      ),
      say(ANSWER),
    ],
    check({ results }) {
      assert.deepEqual(results, ["[x] #1: write it\n[>] #2: run it\n(1/2 completed)"]);
    },
  },
  s04: {
    replies: [call(use("task", { prompt: "make it" })), bash("echo made > made.txt"), say("It is made."), say(ANSWER)],
    check({ folder, requests, results }) {
      assert.deepEqual(requests[1]?.messages, [{ role: "user", content: "make it" }]);
      assert.deepEqual(results, ["(no output)", "It is made."]);
      assert.equal(readFileSync(join(folder, "made.txt"), "utf8"), "made\n");
    },
  },
  s05: {
    replies: [call(use("load_skill", { name: "greeting" })), say(ANSWER)],
    check({ requests, results }) {
      assert.match(String(requests[0]?.system), /^- greeting: How to greet$/m);
      assert.match(results[0] ?? "", /^<skill name="greeting" folder=".*">\nSay hello to all\.\n<\/skill>$/);
    },
  },
  s06: {
    replies: [
      bash(`echo '${PAGE}'`),
      bash(`echo '${PAGE}'`),
      call(use("compact", { focus: "the book" })),
      say("The book is long."),
      say(ANSWER),
    ],
    check({ folder, requests, results }) {
      assert.deepEqual(results.slice(0, 2), [PAGE, PAGE]);
      assert.match(JSON.stringify(requests[3]?.messages.at(-1)), /the book/);
      assert.match(JSON.stringify(requests[4]?.messages), /make it.*Conversation compressed.*The book is long\./);
      const [file = "there is none"] = readdirSync(join(folder, ".transcripts")).filter((name) => /jsonl$/.test(name));
      const lines = readFileSync(join(folder, ".transcripts", file), "utf8")
        .trimEnd()
        .split("\n");
      const triggers = lines.map((line) => JSON.parse(line)).flatMap(({ trigger = [] }) => trigger);
      assert.deepEqual(triggers, ["tool"]);
    },
  },
};

/** What the tools returned, in the order of the calls; none of them may have failed. */
function resultsIn(requests: Anthropic.MessageCreateParams[]): string[] {
  const results = new Map<string, string>();
  for (const { content } of requests.flatMap(({ messages }) => messages)) {
    for (const block of typeof content === "string" ? [] : content) {
      if (block.type !== "tool_result") continue;
      assert.notEqual(block.is_error, true, String(block.content));
      results.set(block.tool_use_id, String(block.content));
    }
  }
  return [...results.values()];
}

/** Starts a lesson on a server of its own in a new folder, with an environment that holds only what it needs. */
async function start(t: TestContext, runtime: Runtime, lesson: string, replies: Reply[]) {
  const server = await startServer({ model: scripted(...replies) });
  const home = realpathSync(mkdtempSync(join(tmpdir(), "runtime-"))); // Deno and Bun keep caches in it
  t.after(async () => {
    await server.close();
    rmSync(home, { recursive: true, force: true });
  });
  const folder = join(home, "workspace");
  mkdirSync(join(folder, "skills/greeting"), { recursive: true });
  writeFileSync(join(folder, "skills/greeting/SKILL.md"), SKILL);

  const file = readdirSync(AGENTS).find((name) => name.startsWith(`${lesson}_`)) ?? assert.fail(`no lesson ${lesson}`);
  const child = spawn(programOf(runtime), [...runtime.args, join(AGENTS, file), "-y", "make it"], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: home, ANTHROPIC_BASE_URL: server.url, ANTHROPIC_API_KEY: "offline" },
    stdio: ["ignore", "pipe", "pipe"],
    signal: t.signal,
  });
  const seen = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    seen.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    seen.stderr += text;
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  return { child, folder, server, seen, ended };
}

/** Runs one request to its end; all that has to be so under any runtime and in any lesson is checked here. */
async function runLesson(t: TestContext, runtime: Runtime, lesson: string, { replies, check }: Play) {
  const { folder, server, seen, ended } = await start(t, runtime, lesson, replies);
  const code = await ended;
  assert.equal(seen.stderr.replace(NOTICE, ""), "");
  assert.equal(code, 0, seen.stdout);
  assert.deepEqual(
    server.journal.map(({ status, error }) => error ?? status),
    replies.map(() => 200),
  );
  const requests = server.journal.map(({ request }) => request);
  const results = resultsIn(requests);
  check({ folder, requests, results });

  assert.match(seen.stdout, new RegExp(`\n${ANSWER}\n(\\[context.*\n)?$`));
}

/** Interrupts a command that goes on until it is killed, and has a child in the background. */
async function interruptLesson(t: TestContext, runtime: Runtime) {
  const endless = "sleep 1000 & echo $! > child; echo $$ > parent; echo > up; wait";
  const { child, folder, server, seen, ended } = await start(t, runtime, "s01", [bash(endless)]);
  while (!existsSync(join(folder, "up"))) {
    assert.equal(child.exitCode, null, seen.stdout + seen.stderr);
    await sleep(10, undefined, { signal: t.signal });
  }
  const pids = ["parent", "child"].map((name) => Number(readFileSync(join(folder, name), "utf8")));
  assert.ok(pids.every(isRunning), "both run");
  t.after(() => {
    for (const pid of pids.filter(isRunning)) process.kill(pid, "SIGKILL"); // if the lesson has not done it
  });
  child.kill("SIGINT");
  assert.equal(await ended, 1, seen.stdout + seen.stderr);
  assert.equal(seen.stderr.replace(NOTICE, ""), "");
  assert.equal(server.journal.length, 1);
  while (pids.some(isRunning)) await sleep(10, undefined, { signal: t.signal });
}

const { optionalDependencies: PACKAGES } = JSON.parse(readFileSync(join(HERE, "package.json"), "utf8"));

/** The version that a runtime says it has; it has to be the one that package.json asks for. */
function checkVersion(runtime: Runtime): string {
  const said = execFileSync(programOf(runtime), ["--version"], { encoding: "utf8", env: {} });
  const version = /\d+\.\d+\.\d+/.exec(said)?.[0] ?? said;
  assert.equal(version, String(PACKAGES[`${runtime.alias}-${PLATFORM}`]).split("@").at(-1));
  const [major] = /\d+/.exec(runtime.name) ?? [];
  if (major) assert.equal(version.split(".")[0], major);
  return version;
}

// The table: a row a runtime, a column a lesson. What was not run, because only some tests were asked for, has a dot.

const COLUMNS = [...Object.keys(PLAYS), "Ctrl-C"];
const versions = new Map<Runtime, string>();
const marks = new Map<string, "✓" | "✗">();

/** One cell of the table is one test. */
function cell(runtime: Runtime, column: string, name: string, run: (t: TestContext) => Promise<void>): void {
  test(`${runtime.name}: ${name}`, { timeout: 120_000 }, async (t) => {
    marks.set(runtime.name + column, "✗");
    await run(t);
    marks.set(runtime.name + column, "✓");
  });
}

function table(): string {
  const rows = RUNTIMES.map((runtime) => [
    runtime.name,
    versions.get(runtime) ?? "?",
    ...COLUMNS.map((column) => marks.get(runtime.name + column) ?? "·"),
  ]);
  const lines = [["runtime", "version", ...COLUMNS], ...rows];
  const widths = lines[0]?.map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0))) ?? [];
  return lines
    .map((line) =>
      line
        .map((text, i) => text.padEnd(widths[i] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

process.on("exit", () => console.log(`\n${table()}\n`));

describe("the lessons under every runtime", { concurrency: 2 }, () => {
  test("each lesson has its column", () => {
    assert.deepEqual(
      readdirSync(AGENTS)
        .map((name) => name.slice(0, 3))
        .sort(),
      Object.keys(PLAYS),
    );
  });

  for (const runtime of RUNTIMES) {
    test(`${runtime.name} is the version that package.json asks for`, () => {
      versions.set(runtime, checkVersion(runtime));
    });
    for (const [lesson, play] of Object.entries(PLAYS)) {
      cell(runtime, lesson, `${lesson} carries out a request`, (t) => runLesson(t, runtime, lesson, play));
    }
    cell(runtime, "Ctrl-C", "Ctrl-C ends the lesson and its whole command", (t) => interruptLesson(t, runtime));
  }
});
