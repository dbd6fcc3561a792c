// Assertions that the suites lack: each fails on the mutant it names and passes on the clone. Copy into tests/.
import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { beforeEach, test } from "node:test";
import { scripted } from "../tools/api/server.ts";
import * as harness from "./harness.ts";

const { bash, call, expectRejection, optionsFor, PASS, resultsIn, rewritesIn, say, server, start, use, user } = harness;
async function load(env: any = {}): Promise<any> {
  const before = { ...process.env };
  Object.assign(process.env, env);
  try {
    return await import(`../agents/s06_context_compact.ts?m=${Math.random()}`);
  } finally {
    for (const n of Object.keys(env)) process.env[n] = before[n] ?? "";
  }
}
const s06 = await load();
const small = await load({ COMPACT_THRESHOLD: "6000" });
const medium = await load({ COMPACT_THRESHOLD: "12000" });
const text = (m: any) => JSON.stringify(m);
const isSum = (r: any) => text(r.messages.at(-1)).includes("Summarize this conversation");
function talkTo(lesson: any, messages: any[] = []) {
  const now = Date.now();
  while (Date.now() === now);
  const options: any = optionsFor(lesson);
  const ask = (request: string, ...replies: any[]) => {
    const m = scripted(...replies);
    return harness.watch(
      (r: any) => (isSum(r) ? say("A summary.") : m(r)),
      () => lesson.runTurn(messages, request, options),
    );
  };
  const compact = () =>
    harness.watch(
      () => say("A summary."),
      () => lesson.autoCompact(messages, "manual", options),
    );
  return { messages, options, state: options.state, ask, compact };
}
const read = (path: string) => call(use("read_file", { path }));
beforeEach(() => {
  harness.emptyWorkspace();
  server.contextLimit = 200_000;
  for (const l of [s06, small, medium]) l.TODO.items = [];
});
const long = say("words ".repeat(3_000));

test("5: a request right after a turn finds the cache warm, so nothing is cleared", async () => {
  fs.writeFileSync("old.txt", "old ".repeat(3_700));
  fs.writeFileSync("new.txt", "n".repeat(150));
  const talk = talkTo(medium);
  await talk.ask("go", read("old.txt"), ...Array(3).fill(read("new.txt")), say("ok"));
  await talk.ask("and?", say("ok"));
  assert.deepEqual(rewritesIn(talk.state.file), []);
});
test("7: an error result has at most 50,000 characters, too", async () => {
  const talk = talkTo(s06);
  talk.options.approve = async () => {
    throw new Error(`not run: the user said: ${"no ".repeat(30_000)}`);
  };
  await talk.ask("go", bash("true"), say("ok"));
  assert.ok((resultsIn(talk.messages)[0]?.text.length ?? 0) < 50_001);
});
test("16: a rejected request after a summary doesn't drop the summary", async () => {
  const talk = talkTo(small);
  await talk.ask("first", long);
  await talk.compact();
  expectRejection(/Bad request/);
  server.fail({ kind: "status", status: 400 });
  await talk.ask("second");
  assert.match(text(talk.messages), /A summary\./);
});
test("33: with a low threshold, a conversation of less than 2,000 tokens can be summarized", async () => {
  const talk = talkTo(small);
  await talk.ask("first", say("words ".repeat(700)));
  const { sent } = await talk.compact();
  assert.equal(sent.length, 1);
});
test("48: the limit for restored files is in tokens, as this server counts them", async () => {
  fs.writeFileSync("mid.txt", "x".repeat(2_100));
  const talk = talkTo(medium);
  await talk.ask("go", read("mid.txt"), long);
  await talk.compact(); // 600 tokens of 3 characters
  assert.doesNotMatch(text(talk.messages), /<file path/);
});
test("49: a file that was too long for one summary comes back with the next once it is short", async () => {
  fs.writeFileSync("a.txt", "x".repeat(9_000));
  const talk = talkTo(medium);
  await talk.ask("go", read("a.txt"), long);
  await talk.compact();
  fs.writeFileSync("a.txt", "short now");
  await talk.ask("more", long);
  await talk.compact();
  assert.match(text(talk.messages), /short now/);
});
test("56: a result that merely quotes such a line has no saved copy", () => {
  const quoted = `grep says:\nOutput too large. Saved to: .transcripts/outputs/other.txt\n${"x".repeat(200)}`;
  const m: any[] = [
    user("go"),
    { role: "assistant", content: [{ type: "tool_use", id: "a", name: "bash", input: {} }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: quoted }] },
    { role: "assistant", content: "ok" },
  ];
  assert.equal(s06.microCompact(m, 0)[2].content[0].content, "[Previous: used bash]");
});
test("58: what the compact tool asked for survives a crash", async () => {
  const talk = talkTo(s06);
  await talk.ask("first", long);
  await talk.ask("second", call(use("compact", { focus: "names" })), say("ok"));
  const lines = fs.readFileSync(talk.state.file, "utf8").split("\n");
  const at = lines.findIndex((l) => l.includes('pendingCompact":{'));
  assert.ok(at > 0, "a line has it");
  fs.writeFileSync("old.jsonl", lines.slice(0, at + 1).join("\n"));
  const options: any = optionsFor(s06);
  await harness.capture(() => s06.resume("old.jsonl", options));
  assert.deepEqual(options.state.pendingCompact, { focus: "names" });
});
test("75: after a refusal, each earlier turn is still marked as stopped", async () => {
  const talk = talkTo(s06);
  for (const request of ["first", "second"]) {
    server.fail(PASS, { kind: "drop" });
    await talk.ask(request, bash("echo 1"), say("x"));
  }
  const before = text(talk.messages.map(s06.withoutThinking));
  server.fail({ kind: "refusal" });
  await talk.ask("third", say("no"));
  assert.equal(text(talk.messages), before);
  assert.equal(before.match(/Stopped here/g)?.length, 2);
});
test("79: of two million characters a million are saved, not fewer", async () => {
  const talk = talkTo(s06);
  await talk.ask("go", bash("seq 250000"), say("ok"));
  const path = /Saved to: (\S+)/.exec(resultsIn(talk.messages)[0]?.text ?? "")?.[1] ?? "";
  assert.ok(fs.readFileSync(path, "utf8").length > 990_000);
});
test("81: /clear doesn't take up a transcript that ended", async (t) => {
  const run = await start(t, "s06_context_compact", ["-y"], {
    replies: [
      bash("f=$(ls .transcripts/*.jsonl); mv $f x; mkdir $f"),
      bash("f=$(ls -d .transcripts/*.jsonl); rmdir $f; mv x $f"),
      say("a"),
      say("b"),
    ],
    input: "one\n/clear\ntwo\n",
  });
  await run.ended;
  const [name = ""] = fs.readdirSync(join(run.cwd, ".transcripts")).filter((n) => n.endsWith("jsonl"));
  assert.doesNotMatch(fs.readFileSync(join(run.cwd, ".transcripts", name), "utf8"), /"clear"/);
});
test("84: a 429 names /clear", async (t) => {
  const run = await start(t, "s06_context_compact", ["-y", "go"], {
    failures: Array(3).fill({ kind: "status", status: 429, retryAfter: 0.001 }),
  });
  for (let i = 0; i < 3; i++) expectRejection(/rate limit/);
  await run.ended;
  assert.match(run.screen(), /429.*\/clear/);
});
test("85: --resume wins over -c", async (t) => {
  const line = (c: string) => `${JSON.stringify({ message: user(c), state: {}, todos: [] })}\n`;
  const run = await start(t, "s06_context_compact", ["-c", "--resume", "named.jsonl"], {
    files: { ".transcripts/transcript_1_1.jsonl": line("newest"), "named.jsonl": line("named") },
    input: "",
  });
  await run.ended;
  assert.match(run.screen(), /request was: named/);
});
test("80: /compact on the first of several lines is a request", async (t) => {
  if (harness.noTerminal) return t.skip();
  const run = await start(t, "s06_context_compact", ["-y", "/compact this\nand that"], { replies: [say("ok")] });
  await run.ended;
  assert.equal(run.journal.length, 1);
  assert.doesNotMatch(text(run.journal[0]?.request.messages), /Summarize/);
});
for (const lesson of ["s01_agent_loop", "s06_context_compact"]) {
  const l: any = await import(`../agents/${lesson}.ts?n=1`);
  test(`s01-19 ${lesson}: characters of several bytes arrive whole`, async () => {
    const { value } = await harness.capture(() =>
      l.runBash("printf x; yes 把 | head -n 12000 | tr -d '\\n'", new AbortController().signal),
    );
    assert.doesNotMatch(String(value), /\ufffd/);
  });
  test(`s01-5 ${lesson}: after Ctrl-C at a question the model reads that the user interrupted`, async () => {
    const stop = new AbortController();
    const { results } = await harness.loop(l, [bash("true")], {
      signal: stop.signal,
      approve: async () => {
        stop.abort(new Error("AbortError: whatever"));
        stop.signal.throwIfAborted();
      },
    });
    assert.match(results[0]?.text ?? "", /interrupted by user/);
  });
}
