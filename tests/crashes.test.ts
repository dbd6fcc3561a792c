// Faults of the disk and of processes: kills, a full disk, two agents at once, hostile commands, Ctrl-C at every moment.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import { type Model, type Reply, type ReplyBlock, scripted, startServer } from "../offline/server.ts";
import { picture, sizeOf, watching } from "./disk.ts";
import { capture, folder, isRunning, load, server, until } from "./harness.ts";
import { blocksOf, call, say, user } from "./replies.ts";

Object.assign(process.env, { COMPACT_THRESHOLD: "8000", COMPACT_MIN_SAVINGS: "500", COMPACT_KEEP_RECENT: "1" });
const s01 = await import("../agents/s01_agent_loop.ts");
const s06 = await import("../agents/s06_context_compact.ts");
for (const { approval } of [s01, s06]) approval.always = true;

type Lesson = typeof s06;
type Messages = Anthropic.MessageParam[];

/** The last lesson as another program would have it, with nothing said or written yet. */
async function another(): Promise<Lesson> {
  const lesson = await load<Lesson>("s06_context_compact");
  lesson.approval.always = true;
  return lesson;
}

// --- replies, histories and what is asked of them -------------------------------------------------------------------

let ids = 0;
const use = (name: string, input: unknown): ReplyBlock => ({ type: "tool_use", name, input, id: `call_${ids++}` });
const run = (command: string) => call(use("bash", { command }));
const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value));

const resultsOf = (messages: Messages) =>
  messages.flatMap(blocksOf).flatMap((block) => (block.type === "tool_result" ? [String(block.content)] : []));

let screen = "";
/** What something returns, without its output on the screen, which `screen` then holds. */
const quiet = <T>(work: () => T | Promise<T>, seen?: () => void): Promise<T> =>
  capture(work, (text) => {
    screen += text;
    seen?.();
  });
const times = (text: string, part: string) => text.split(part).length - 1;

/** The lines of a transcript, each of which has to be whole. */
function linesOf(text: string): { type?: string; role?: string; messages?: Messages }[] {
  assert.ok(text.endsWith("\n"), `torn: ${text.slice(-80)}`);
  return text
    .slice(0, -1)
    .split("\n")
    .map((line) => JSON.parse(line));
}
const names = () =>
  existsSync(s06.TRANSCRIPT_DIR)
    ? readdirSync(s06.TRANSCRIPT_DIR).filter((name) => name.startsWith("transcript_"))
    : [];
function onlyTranscript(): string {
  const [name, ...more] = names();
  assert.ok(name && more.length === 0, `${more.length + 1} transcripts`);
  return join(s06.TRANSCRIPT_DIR, name);
}

/** Takes up a conversation from a transcript, asks one thing more, and returns the history; the server accepts it all. */
async function goOn(text: string, { resume, agentLoop }: Lesson = s06): Promise<Messages> {
  const file = join(folder, "copy.jsonl");
  writeFileSync(file, text);
  server.journal.length = 0;
  server.model = () => say("went on");
  return quiet(async () => {
    const messages = resume(file);
    messages.push(user("and now?"));
    assert.equal(await agentLoop(messages), "done");
    assert.deepEqual(
      server.journal.filter(({ status }) => status !== 200).map(({ error }) => error),
      [],
    );
    assert.deepEqual(linesOf(readFileSync(file, "utf8")).at(-1), plain(messages.at(-1)));
    return messages;
  });
}

beforeEach(() => {
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true, force: true });
  server.journal.length = 0;
  screen = "";
});

// --- killed at every stage ------------------------------------------------------------------------------------------

const WRITES: { what: string; path: string; work: (lesson: Lesson) => void; target?: string }[] = [
  { what: "a new file", path: "new.txt", work: (lesson) => lesson.runWrite("new.txt", "new content") },
  { what: "a file in new folders", path: "a/b/new", work: (lesson) => lesson.runWrite("a/b/new", "new content") },
  { what: "a file that is there", path: "secret", work: (lesson) => lesson.runWrite("secret", "new content") },
  { what: "a script", path: "run.sh", work: (lesson) => lesson.runWrite("run.sh", "new content") },
  { what: "an edit", path: "secret", work: (lesson) => lesson.runEdit("secret", "old", "new") },
  { what: "a file behind a link", path: "secret", work: (lesson) => lesson.runWrite("link", "new content") },
];

for (const { what, path, work } of WRITES)
  test(`killed at any stage of writing ${what}, the old content is there or the new, and nothing else is touched`, async () => {
    writeFileSync("secret", "old content", { mode: 0o600 });
    writeFileSync("run.sh", "old content");
    chmodSync("run.sh", 0o755);
    writeFileSync("other", "of the person's");
    symlinkSync("secret", "link");
    const before = picture(folder);
    const stages: { at: string; files: ReturnType<typeof picture> }[] = [];
    await watching({ stage: (at) => stages.push({ at, files: picture(folder) }) }, () => work(s06));
    const after = picture(folder);
    assert.equal(after.get(path)?.text, "new content");
    assert.ok(stages.length >= 6, stages.map(({ at }) => at).join("\n"));

    for (const { at, files } of stages) {
      const file = files.get(path);
      assert.ok(file?.text === before.get(path)?.text || file?.text === "new content", at);
      if (before.has(path)) assert.equal(file?.mode, before.get(path)?.mode, at);
      for (const [name, { mode }] of files) {
        if (name === path) continue;
        if (before.has(name)) assert.deepEqual(files.get(name), before.get(name), at);
        else {
          assert.match(name, /(^|\/)\.[^/]+\.tmp$/, at);
          assert.equal(mode & ~(before.get(path)?.mode ?? 0o777), 0, `${at}: ${name} is open to more people`);
        }
      }
    }
    assert.deepEqual([...after.keys()].sort(), [...new Set([...before.keys(), path])].sort());
  });

/** A conversation in which a large output is saved, layer 1 clears and layer 2 replaces; the model of one who answers it. */
function longTalk(): Reply[] {
  const print = (mark: string) => run(`printf '${mark}%.0s' {1..3000}`);
  return [
    run("printf 'x%.0s' {1..30000}"),
    print("ab"),
    print("cd"),
    print("ef"),
    print("gh"),
    call(use("task", { prompt: "say hello" })),
    say("hello from the child"),
    call(use("compact", {})),
    say("A summary of it all."),
    run("echo after"),
    say("printed"),
  ];
}
const isTranscript = (name: string) => /^\.transcripts\/transcript_\d+_\d+\.jsonl$/.test(name);

test("killed at any stage of a conversation with all layers, each message is on disk and the conversation goes on", async () => {
  const messages = [user("print much")];
  const model = scripted(...longTalk());
  const newest: { inHistory: unknown; onDisk: unknown }[] = []; // what is last in the history, and what is last on disk, as each request arrives
  server.model = (request) => {
    if (!JSON.stringify(request.messages[0]).includes("say hello")) {
      const last = linesOf(readFileSync(onlyTranscript(), "utf8")).at(-1);
      newest.push({ inHistory: plain(messages.at(-1)), onDisk: last?.messages?.at(-1) ?? last });
    }
    return model(request);
  };
  const stages: { at: string; files: ReturnType<typeof picture> }[] = [];
  const stage = (at: string) => stages.push({ at, files: picture(folder) });
  await quiet(() => watching({ stage }, () => s06.agentLoop(messages)));
  const whole = readFileSync(onlyTranscript(), "utf8");
  for (const sign of ["[micro_compact]", "[manual compact]", "Output too large", "hello from the child"])
    assert.ok((screen + whole).includes(sign), `${sign} is not in ${screen}`);
  assert.equal(newest.length, 10);
  for (const { inHistory, onDisk } of newest) assert.deepEqual(onDisk, inHistory);
  const output = "x".repeat(30_000);
  assert.ok(stages.length > 70, String(stages.length));

  const seen = new Set<string>();
  let length = 0;
  for (const { at, files } of stages) {
    for (const [name, { mode }] of files) {
      assert.match(name, /^\.transcripts\//, at);
      assert.equal(mode, 0o600, `${at}: ${name}`);
    }
    const text = [...files].find(([name]) => isTranscript(name))?.[1].text ?? "";
    assert.ok(whole.startsWith(text), `${at}: what is on disk is the beginning of what will be`);
    assert.ok(text.length >= length, `${at}: nothing is taken back`);
    length = text.length;
    const lines = text.slice(0, text.lastIndexOf("\n") + 1);
    if (lines.includes("Saved to: "))
      assert.ok(
        [...files.values()].some((file) => file.text === output),
        `${at}: what is said to be saved is whole`,
      );
    if (seen.has(text) || !lines) continue;
    seen.add(text);
    const history = await goOn(text);
    assert.ok(history.length >= 2, at);
  }
  assert.ok(seen.size > 30, String(seen.size));
});

const TSX = import.meta.resolve("tsx");
const LESSON = fileURLToPath(new URL("../agents/s06_context_compact.ts", import.meta.url));
const DISK = new URL("./disk.ts", import.meta.url).href;

/** Runs the last lesson as a program in a folder of its own, and returns what it leaves there and whether it was killed. */
async function program(t: TestContext, model: (kill: () => void) => Model, stage = 0) {
  const own = await startServer();
  const cwd = mkdtempSync(join(folder, "killed-"));
  writeFileSync(join(cwd, "secret"), "old content", { mode: 0o600 });
  const args = ["--import", TSX, "--import", DISK, LESSON, "-y", "print much"];
  const env = { ...process.env, ANTHROPIC_BASE_URL: own.url, STAGE_OF_KILL: String(stage) };
  const child = spawn(process.execPath, args, { cwd, env, stdio: "ignore" });
  own.model = model(() => child.kill("SIGKILL"));
  t.after(async () => {
    child.kill("SIGKILL");
    await own.close();
  });
  const killed = await new Promise((resolve) => child.on("close", (_code, signal) => resolve(signal === "SIGKILL")));
  const files = picture(cwd);
  return { killed, files, text: [...files].find(([name]) => isTranscript(name))?.[1].text ?? "" };
}

/** Requests at which the program is killed, and how many lines its transcript has by then. */
const REQUESTS: { at: string; request: number; lines: number }[] = [
  { at: "as a call is answered, before a compaction", request: 8, lines: 13 },
  { at: "as the summary is asked for", request: 9, lines: 15 },
  { at: "as the next call is made", request: 10, lines: 16 },
];
for (const { at, request, lines } of REQUESTS)
  test(`kill -9 ${at} leaves each line that was written`, async (t) => {
    const replies = scripted(...longTalk());
    let requests = 0;
    const { killed, files, text } = await program(t, (kill) => (asked) => {
      if (++requests === request) kill();
      return replies(asked);
    });
    assert.equal(killed, true);
    assert.equal(linesOf(text).length, lines);
    for (const name of files.keys()) assert.match(name, /^secret$|^\.transcripts\//);
    await goOn(text);
  });

/** What the program is killed in, and the first call to the disk that belongs to it. */
const KILLED: { what: string; replies: () => Reply[]; first: RegExp }[] = [
  {
    what: "a write_file",
    replies: () => [call(use("write_file", { path: "secret", content: "new content" })), say("done")],
    first: /secret$|\.tmp$/,
  },
  {
    what: "a compaction",
    replies: () => [
      run("printf 'ab%.0s' {1..3000}"),
      call(use("bash", { command: "printf 'x%.0s' {1..30000}" }), use("compact", {})),
      say("A summary of it all."),
      say("done"),
    ],
    first: /outputs\//,
  },
];
for (const { what, replies, first } of KILLED)
  test(`kill -9 at each call to the disk, from ${what} to the end, leaves whole files and each line that was written`, async (t) => {
    writeFileSync("secret", "old content", { mode: 0o600 });
    const all: string[] = [];
    server.model = scripted(...replies());
    await quiet(() => watching({ stage: (at) => all.push(at) }, () => s06.agentLoop([user("print much")])));
    const kinds = (text: string) => linesOf(text).map(({ type, role }) => type ?? role);
    const whole = kinds(readFileSync(onlyTranscript(), "utf8"));
    assert.equal(whole.includes("compaction"), what === "a compaction");
    const isInLine = /transcript_.*half$/;
    const isOfFolder = /Sync \.transcripts(\/outputs)?$/; // that is there already
    const begin = all.findIndex((at) => first.test(at));
    const stages = [...all.entries()].filter(([stage, at]) => stage >= begin && !isOfFolder.test(at));
    assert.ok(begin >= 0 && stages.length >= 12, all.join("\n"));

    for (const [stage, at] of stages) {
      const { killed, files, text } = await program(t, () => scripted(...replies()), stage + 1);
      assert.equal(killed, true, at);
      const lines = text.slice(0, text.lastIndexOf("\n") + 1);
      assert.equal(lines !== text, isInLine.test(at), at);
      const written = all.slice(0, stage).filter((before) => isInLine.test(before)).length;
      assert.deepEqual(lines ? kinds(lines) : [], whole.slice(0, written), at);
      for (const [name, file] of files) {
        if (name === "secret") assert.match(file.text, /^(old|new) content$/, at);
        else assert.match(name, /^\.[^/]+\.tmp$|^\.transcripts\//, at);
        assert.equal(file.mode, 0o600, `${at}: ${name}`);
      }
      if (lines) await goOn(text);
    }
  });

// --- a full disk, and things in the way -----------------------------------------------------------------------------

/** A turn with a short and a large output, with a file to write, and the answer. */
const someTalk = () => [
  run("echo one"),
  call(use("write_file", { path: "kept", content: "new ".repeat(1_000) })),
  run("printf 'x%.0s' {1..30000}"),
  say("done"),
];

for (const room of [0, 1, 40, 400, 1_000, 6_000, 20_000])
  test(`with room for ${room} bytes on the disk the agent goes on, says so once, and writes the rest when there is room`, async () => {
    const lesson = await another();
    writeFileSync("kept", "old");
    const messages = [user("go on whatever happens")];
    server.model = scripted(...someTalk(), say("again"), say("saved"));
    const kept: string[] = [];
    await quiet(async () => {
      const stage = () => kept.push(readFileSync("kept", "utf8"));
      await watching({ stage, room: () => room + 3 - sizeOf(folder) }, async () => {
        assert.equal(await lesson.agentLoop(messages), "done");
        messages.push(user("still there?"));
        assert.equal(await lesson.agentLoop(messages), "done");
      });
      const before = new Set(["old", "new ".repeat(1_000)]);
      assert.deepEqual(new Set([...kept, ...before]), before);
      const fits = room === 20_000; // all but the large output
      assert.equal(times(screen, "not written"), fits ? 0 : 1, screen);
      assert.ok(fits || /not written.*ENOSPC/.test(screen), screen);
      const [, written, large] = resultsOf(messages);
      assert.match(written ?? "", fits ? /^Wrote 4000 bytes/ : /ENOSPC/);
      assert.equal(readFileSync("kept", "utf8") === "old", !fits);
      assert.match(large ?? "", /could not be saved.*ENOSPC[\s\S]*xxxx/);
      for (const name of picture(folder).keys()) assert.match(name, /^kept$|gitignore$|^\.transcripts\/transcript/);

      messages.push(user("now?"));
      assert.equal(await lesson.agentLoop(messages), "done");
      assert.equal(times(screen, "not written"), fits ? 0 : 1, screen);
    });
    const text = readFileSync(onlyTranscript(), "utf8");
    assert.deepEqual(linesOf(text), plain(messages));
    assert.match(readFileSync(join(lesson.TRANSCRIPT_DIR, ".gitignore"), "utf8"), /^\*\n?$/);
    await goOn(text);
  });

test("when the transcript cannot be made, the person is told that reason and no other", async () => {
  const lesson = await another();
  server.model = scripted(say("done"));
  const refuse = (what: string) => {
    if (what.startsWith("appendFileSync")) throw new Error("EDQUOT: disk quota exceeded");
  };
  await quiet(() => watching({ stage: refuse }, () => lesson.agentLoop([user("go on")])));
  assert.match(screen, /transcript not written: error: EDQUOT/);
});

const HINDRANCES: [string, () => void][] = [
  ["a file", () => writeFileSync(s06.TRANSCRIPT_DIR, "of the person's")],
  ["a dangling link", () => symlinkSync(join(folder, "gone", "away"), s06.TRANSCRIPT_DIR)],
  ["a link to itself", () => symlinkSync(s06.TRANSCRIPT_DIR, s06.TRANSCRIPT_DIR)],
  ["a link to a device that is full", () => symlinkSync("/dev/full", s06.TRANSCRIPT_DIR)],
];
for (const [what, put] of HINDRANCES)
  test(`with ${what} in the place of the transcripts the agent goes on, says so once, and writes all when it is gone`, async () => {
    const lesson = await another();
    put();
    const before = picture(folder);
    const messages = [user("go on whatever happens")];
    server.model = scripted(run("printf 'x%.0s' {1..30000}"), say("done"), say("again"));
    await quiet(async () => {
      assert.equal(await lesson.agentLoop(messages), "done");
      assert.equal(times(screen, "transcript not written"), 1, screen);
      assert.match(resultsOf(messages)[0] ?? "", /could not be saved[\s\S]*xxxx/);
      assert.deepEqual(picture(folder), before);
      rmSync(lesson.TRANSCRIPT_DIR);
      messages.push(user("now?"));
      assert.equal(await lesson.agentLoop(messages), "done");
    });
    assert.equal(times(screen, "transcript not written"), 1, screen);
    assert.deepEqual(linesOf(readFileSync(onlyTranscript(), "utf8")), plain(messages));
  });

test("in a folder where it may not write, the agent goes on and says so once", async () => {
  const script = `import { agentLoop } from ${JSON.stringify(LESSON)};
  if (process.getuid() === 0) process.setuid(65534); // root may write everywhere
  for (const content of ["one", "two"]) console.log(await agentLoop([{ role: "user", content }]));`;
  writeFileSync("program.mjs", script);
  server.model = () => say("fine");
  chmodSync(folder, 0o555);
  try {
    const child = spawn(process.execPath, ["--import", TSX, "program.mjs"], { stdio: ["ignore", "pipe", "inherit"] });
    let out = "";
    child.stdout.on("data", (chunk) => {
      out += chunk;
    });
    await new Promise((resolve) => child.on("close", resolve));
    assert.equal(times(out, "not written"), 1, out);
    assert.match(out, /not written.*(EACCES|EPERM)/);
    assert.equal(out.match(/^done$/gm)?.length, 2, out);
  } finally {
    chmodSync(folder, 0o700);
  }
});

test("a compaction while nothing can be written names no transcript, and what it replaced is written later", async () => {
  const lesson = await another();
  writeFileSync(s06.TRANSCRIPT_DIR, "in the way");
  const talk: Messages = [user("tell me"), { role: "assistant", content: "a word ".repeat(2_000) }, user("more")];
  const messages = plain(talk);
  server.model = scripted(say("A summary."), say("went on"));
  await quiet(async () => {
    assert.equal(await lesson.autoCompact(messages, { trigger: "manual" }), "done");
    assert.match(JSON.stringify(messages[0]), /compressed\. Transcript: not written\]/);
    assert.equal(times(screen, "[transcript saved"), 0, screen);
    assert.equal(times(screen, "[transcript not written"), 1, screen);
    rmSync(lesson.TRANSCRIPT_DIR);
    messages.push(user("now?"));
    assert.equal(await lesson.agentLoop(messages), "done");
  });
  const lines = linesOf(readFileSync(onlyTranscript(), "utf8"));
  assert.deepEqual(lines.slice(0, 3), talk);
  assert.deepEqual(lines.map(({ type, role }) => type ?? role).slice(3), ["compaction", "user", "assistant"]);
});

// --- one folder, one transcript, two agents -------------------------------------------------------------------------

test("a transcript that was cut at any byte is taken up to its last whole line", async () => {
  const messages = [user("说 hello")];
  server.model = scripted(call(use("bash", { command: "echo 你好" }), use("nonsense", {})), say("done 😀"));
  await quiet(() => s06.agentLoop(messages));
  const bytes = readFileSync(onlyTranscript());
  const file = join(folder, "cut.jsonl");
  let begin = 0; // of the line that is cut
  let expected: Messages | undefined;
  for (let end = 0; end < bytes.length; end++) {
    const isWhole = bytes[end] === 10; // but for its end
    if (isWhole) expected = await goOn(bytes.subarray(0, end + 1).toString());
    writeFileSync(file, bytes.subarray(0, end));
    await quiet(() => {
      if (!expected) return assert.throws(() => s06.resume(file), /cut\.jsonl/);
      assert.deepEqual(s06.resume(file), expected.slice(0, -2), String(end));
      assert.equal(readFileSync(file).length, isWhole ? end + 1 : begin, String(end));
    });
    if (isWhole) begin = end + 1;
  }
  assert.equal(expected?.length, 6);
});

/** Two programs in one folder, each in a turn of three rounds at the same time, which the other's replies come between. */
async function both(histories: [Lesson, Messages][], replies: (who: number) => Reply[]): Promise<void> {
  const scripts = histories.map((_, who) => scripted(...replies(who)));
  server.model = (request) => {
    const who = histories.findIndex(([, messages]) =>
      JSON.stringify(request.messages).includes(JSON.stringify(messages.at(0))),
    );
    return scripts[who]?.(request) ?? assert.fail("nobody's request");
  };
  const outcomes = await quiet(() => Promise.all(histories.map(([lesson, messages]) => lesson.agentLoop(messages))));
  assert.deepEqual(outcomes, ["done", "done"]);
}

test("two agents in one folder write two transcripts, both whole, and a file that both write is always whole", async () => {
  const [a, b] = [await another(), await another()];
  const texts = ["a", "b"].map((letter) => letter.repeat(10_000));
  const replies = (who: number) => [
    call(...Array.from({ length: 5 }, () => use("write_file", { path: "shared", content: texts[who] }))),
    run("printf 'x%.0s' {1..30000}"),
    call(use("write_file", { path: "shared", content: texts[who] })),
    say("done"),
  ];
  const found = new Set<string>();
  const stage = () => existsSync("shared") && found.add(readFileSync("shared", "utf8"));
  const histories: [Lesson, Messages][] = [
    [a, [user("I am a")]],
    [b, [user("I am b")]],
  ];
  // Programs have ids of their own, which their transcripts are named by; here both are one.
  a.estimateTokens(histories[0]?.[1] ?? []);
  const then = Date.now();
  await until(() => Date.now() > then);
  await watching({ stage }, () => both(histories, replies));
  assert.deepEqual([...found].sort(), texts);
  const transcripts = names().map((name) => readFileSync(join(s06.TRANSCRIPT_DIR, name), "utf8"));
  assert.equal(transcripts.length, 2);
  for (const [, messages] of histories) {
    const own = transcripts.find((text) => text.startsWith(JSON.stringify(messages[0])));
    assert.deepEqual(linesOf(own ?? ""), plain(messages));
    await goOn(own ?? "");
  }
});

test("two agents that take up the same transcript lose nothing of it, and it can be taken up again", async () => {
  const first = await another();
  const begun = [user("begin")];
  server.model = scripted(run("echo begun"), say("begun"));
  await quiet(() => first.agentLoop(begun));
  const file = onlyTranscript();
  const programs = [await another(), await another()];
  const histories = await quiet(() => programs.map((lesson) => lesson.resume(file)));
  for (const [who, messages] of histories.entries()) messages.push(user(`I am ${who}`));
  const scripts = histories.map((_, who) => scripted(run(`echo ${who}`), run(`echo again ${who}`), say(`done ${who}`)));
  server.model = (request) => {
    const who = JSON.stringify(request.messages).includes("I am 0") ? 0 : 1;
    return scripts[who]?.(request) ?? assert.fail();
  };
  await quiet(() => Promise.all(programs.map((lesson, who) => lesson.agentLoop(histories[who] ?? []))));
  const text = readFileSync(file, "utf8");
  const lines = linesOf(text).map((line) => JSON.stringify(line));
  assert.equal(lines.length, 4 + 2 * 6);
  for (const messages of histories)
    for (const message of messages.slice(4)) assert.ok(lines.includes(JSON.stringify(message)));
  await goOn(text);
});

test("a whole transcript is not touched as it is taken up, so that what another agent writes meanwhile stays", async () => {
  server.model = scripted(say("begun"));
  await quiet(() => s06.agentLoop([user("begin")]));
  const file = onlyTranscript();
  const line = `${JSON.stringify(user("from the other one"))}\n`;
  const stages: string[] = [];
  const stage = (at: string) => {
    stages.push(at);
    appendFileSync(file, line);
  };
  await quiet(() => watching({ stage }, () => s06.resume(file)));
  assert.equal(times(readFileSync(file, "utf8"), line), stages.length, "what came before a change is gone");
  assert.deepEqual(
    stages.filter((at) => !at.startsWith("chmodSync ")),
    [],
  );
});

// --- commands -------------------------------------------------------------------------------------------------------

const isUp = () => existsSync("up") && readFileSync("up", "utf8").endsWith("\n");
const pidIn = (name: string) => Number(readFileSync(name, "utf8"));

for (const [lesson, { runBash }] of Object.entries({ s01, s06 }))
  describe(`commands in ${lesson}`, () => {
    const COMMANDS: [string, string, RegExp][] = [
      ["reads its input", 'read line; echo "$? [$line]"; cat; echo end', /^1 \[\]\nend$/],
      ["closes its output early", "echo a; exec >&- 2>&-; sleep 0.1; exit 3", /^a\n\(exit code 3\)$/],
      ["kills itself", "echo a; kill -9 $$", /^a\n\(killed by SIGKILL\)$/],
      [
        "kills its own shell",
        "(sh -c 'kill -9 $PPID'; echo never); echo b; sh -c 'kill -9 $PPID'; echo c",
        /(^|\n)b\n\(killed by SIGKILL\)$/,
      ],
      ["sends SIGINT to its group", "echo a; kill -INT 0; echo never", /^a\n\(killed by SIGINT\)$/],
      ["sends SIGINT to its group and goes on", "trap '' INT; echo a; kill -INT 0; sleep 0.1; echo b", /^a\nb$/],
      ["sends SIGTERM to its group and goes on", "trap '' TERM; echo a; kill 0; sleep 0.1; echo b", /^a\nb$/],
      ["sends SIGHUP to its group and goes on", "trap '' HUP; echo a; kill -HUP 0; sleep 0.1; echo b", /^a\nb$/],
      ["ends all it started when it ends", "trap 'kill 0' EXIT; sleep 1000 & echo a", /^a\n.*SIGTERM\)$/],
      ["leaves a zombie", "(sleep 0.01 & exec sleep 0.1); echo a", /^a$/],
      ["writes half a character", "printf 'a\\360\\237'", /^a\ufffd$/],
      ["writes another encoding", "printf 'gr\\374n'", /^gr\ufffdn$/],
      ["prints on from a group of its own", "set -m; (sleep 0.05; echo b) & set +m; echo a; wait", /^a\nb$/],
    ];
    for (const [what, command, output] of COMMANDS)
      test(`a command that ${what} gives its output and how it ended`, async () => {
        assert.match(await runBash(command), output);
      });

    for (const [what, begin] of [
      ["ignores SIGTERM", "trap '' TERM HUP INT"],
      ["has stopped itself", "(until [ -e up ]; do sleep 0.01; done; kill -STOP $$) &"],
    ])
      test(`a command that ${what} ends at an interruption and at the time limit, with all that it started`, async (t) => {
        const command = `${begin}
          (trap '' TERM; exec sleep 1000) & echo $! > child; echo $$ > up; while :; do sleep 1000; done`;
        for (const how of ["interrupted", "timed out"]) {
          for (const name of ["up", "child"]) rmSync(name, { force: true });
          const stop = new AbortController();
          if (how === "timed out") t.mock.timers.enable({ apis: ["setTimeout"] });
          const running = runBash(command, stop.signal);
          while (!isUp()) await new Promise((resolve) => setImmediate(resolve));
          if (how === "interrupted") stop.abort();
          else {
            t.mock.timers.tick(120_000);
            t.mock.timers.tick(1_000); // that it has to clean up
            t.mock.timers.reset();
          }
          assert.match(await running, new RegExp(`\\(${how}`));
          await until(() => !isRunning(pidIn("up")) && !isRunning(pidIn("child")));
        }
      });

    for (const how of ["sleep 1000 &", "nohup sleep 1000 &", "sleep 1000 & disown;", "setsid sleep 1000 &"])
      test(`what \`${how}\` leaves behind lives on, and the command does not wait for it`, {
        skip: how.startsWith("setsid") && !existsSync("/usr/bin/setsid"),
      }, async (t) => {
        const pid = Number(/^\d+/.exec(await runBash(`${how} echo $!`))?.[0]);
        t.after(() => process.kill(pid));
        assert.equal(isRunning(pid), true);
      });

    test("a million lines arrive whole", async () => {
      const lines = (await runBash("seq 1000000")).split("\n");
      assert.equal(lines.length, 1_000_000);
      assert.ok(lines.every((line, i) => line === String(i + 1)));
    });
  });

test("a command that prints 1 GB takes a part of that of the agent's memory, whose garbage comes and goes", async (t) => {
  const before = process.memoryUsage().rss;
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss - before);
  }, 5);
  t.after(() => clearInterval(watch));
  const output = await s01.runBash("head -c 1000000000 /dev/zero");
  assert.ok(output.length > 5_000_000 && output.length < 10_001_000, String(output.length));
  assert.ok(most < 400_000_000, `${most} bytes`);
});

// --- Ctrl-C at every moment -----------------------------------------------------------------------------------------

test("Ctrl-C at any moment of a turn leaves a history that goes on, in which each call has one result and nothing is lost", async () => {
  const task = "say hello";
  const talk = () => [
    call(use("write_file", { path: "a", content: "whole" }), use("bash", { command: "printf 'x%.0s' {1..30000}" })),
    call(use("compact", {})),
    say("A summary."),
    call(use("task", { prompt: task }), use("bash", { command: "echo after" })),
    say("hello from the child"),
    say("done"),
  ];
  const outcomes = new Map<string, number>();
  let moments = 0;
  for (let k = 1; moments >= k - 1; k++) {
    for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true, force: true });
    server.journal.length = 0;
    const stop = new AbortController();
    moments = 0;
    const moment = () => ++moments === k && stop.abort();
    const stage = (at: string) => !/^mkdir|, /.test(at) && moment(); // what follows at once makes no difference
    const replies = scripted(...talk());
    server.model = (request) => {
      moment();
      return replies(request);
    };
    const before: Anthropic.MessageParam = { role: "assistant", content: "a word ".repeat(2_000) };
    const messages = [user("speak"), before, user("print much")];
    const outcome = await quiet(
      () => watching({ stage }, () => s06.agentLoop(messages, { signal: stop.signal })),
      moment,
    );
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    const left = plain(messages);
    const calls = messages.flatMap(blocksOf).filter((block) => block.type === "tool_use");
    assert.equal(resultsOf(messages).length, calls.length, `moment ${k}`);
    assert.ok(JSON.stringify(messages).includes("print much"), `moment ${k}`);
    if (existsSync("a")) assert.equal(readFileSync("a", "utf8"), "whole");

    server.model = () => say("still here");
    messages.push(user("and now?"));
    assert.equal(await quiet(() => s06.agentLoop(messages)), "done", `moment ${k}`);
    const rejected = server.journal.filter(({ status }) => status !== 200);
    assert.deepEqual(
      rejected.map(({ error }) => error),
      [],
      `moment ${k}`,
    );
    const text = readFileSync(onlyTranscript(), "utf8");
    const onDisk = linesOf(text)
      .flatMap((line) => line.messages ?? [line])
      .map((message) => JSON.stringify(message));
    for (const message of left) assert.ok(onDisk.includes(JSON.stringify(message)), `moment ${k}`);
    const resumed = await quiet(() => s06.resume(onlyTranscript()));
    assert.equal(resultsOf(resumed).length, resultsOf(messages).length, `moment ${k}`);
  }
  for (const sign of ["[manual compact]", "hello from the child"]) assert.ok(screen.includes(sign), sign);
  assert.ok((outcomes.get("interrupted") ?? 0) > 50, JSON.stringify([...outcomes]));
  assert.equal([...outcomes.keys()].sort().join(), "done,interrupted");
});
