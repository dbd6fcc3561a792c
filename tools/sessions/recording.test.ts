/** How session files of Claude Code and s06 become events. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { STOPPED } from "../../offline/wording.ts";
import { type Event, textOf } from "./events.ts";
import { readRecording } from "./recording.ts";
import {
  boundary,
  line,
  linesOf,
  own,
  reply,
  result,
  rewrite,
  said,
  summary,
  text,
  use,
  used,
  user,
} from "./test-lines.ts";

/** The kinds of blocks of a message, or the type of another event with the messages of a new history. */
function outlineOf(event: Event): string {
  if (event.type === "message") return event.blocks.map(({ kind }) => kind).join(" ");
  return event.type === "rewrite" ? `rewrite (${event.messages.map(outlineOf).join(", ")})` : event.type;
}
const eventsIn = (...lines: object[]) => readRecording(linesOf(...lines)).events;
const outline = (...lines: object[]) => eventsIn(...lines).map(outlineOf);

test("both formats become the same events", () => {
  const claude = outline(
    line(null, "a1", 1, user("Look.")),
    line("a1", "a2", 2, said("m1", use("t1", "Read"))),
    line("a2", "a3", 2, user([result("t1")])),
    line("a3", "a4", 3, said("m2", text("Seen."))),
    line("a4", "a5", 4, user("This session is continued."), { isCompactSummary: true }),
  );
  const s06 = outline(
    ...[user("Look."), reply(use("t1", "Read")), user([result("t1")])].map((message) => own(message)),
    used([0, 0, 9, 1]),
    own(reply(text("Seen."))),
    rewrite("auto", [user("Look."), summary]),
  );
  const both = ["request", "call", "call", "result", "call", "reply"];
  assert.deepEqual(claude, [...both, "rewrite (summary)"]);
  assert.deepEqual(s06, [...both, "rewrite (request, summary)"]);
});

test("a result has its call, even if it comes first, and an image has its estimated size", () => {
  const picture = { type: "image", source: { type: "base64", media_type: "image/png", data: "A".repeat(90_000) } };
  const [first, , second] = eventsIn(
    own(user([text("See:"), result("t1", [text("Here:"), picture])])),
    own(reply(use("t1", "read_file", { path: "a.png", items: [{ a: 1 }, { a: 2 }] }))),
  );
  const [said, seen] = first?.type === "message" ? first.blocks : [];
  assert.ok(said && seen?.kind === "result" && second?.type === "message");
  assert.equal(said.chars, JSON.stringify(text("See:")).length + 30); // 30 for the message around it
  assert.ok(seen.chars > 4_500 && seen.chars < 4_700, `${seen.chars}`);
  assert.equal(textOf(seen), "Here:\n[image]");
  const [call = assert.fail()] = second.blocks;
  assert.equal(call.kind === "call" && call.call, seen.call);
  assert.equal(textOf(call), 'path: a.png\nitems:\n  {"a":1}\n  {"a":2}');
});

test("in s06 the note that a turn was stopped isn't a request, and neither is a list", () => {
  const note = `${STOPPED} Whatever ran has taken effect.)`;
  const kinds = outline(own(user(note)), own(user("Second.")), own(user([text("<reminder>")])));
  assert.deepEqual(kinds, ["client", "request", "client"]);
});

// --- branches and compactions of Claude Code -------------------------------------------------------------------------

const announce = (uuid: string, more: object = {}, logicalParentUuid?: string) =>
  boundary({ trigger: "manual", preTokens: 9_000, ...more }, { uuid, parentUuid: null, logicalParentUuid });
const continues = (uuid: string, parent: string) =>
  line(parent, uuid, 5, user("This session is continued."), { isCompactSummary: true });
const turn = (n: number, parent: string | null) => [
  line(parent, `u${n}`, n, user(`Request ${n}.`)),
  line(`u${n}`, `a${n}`, n, said(`m${n}`, text(`Reply ${n}.`))),
];
const hook = (uuid: string, parentUuid: string) => ({ type: "system", uuid, parentUuid });

test("all of a session is found whatever its second compaction gives as the line before it", () => {
  const first = [...turn(1, null), hook("h1", "a1"), announce("b1"), continues("s1", "b1"), ...turn(2, "s1")];
  const copies = [...turn(1, null), hook("h2", "a1")];
  for (const between of [[], copies])
    for (const logical of [undefined, "a2", "u1", "h2", "gone"]) {
      const last = [announce("b2", {}, logical), continues("s2", "b2"), ...turn(3, "s2")];
      const found = outline(...first, ...between, ...last).filter((each) => each !== "call");
      const compacted = "rewrite (summary)";
      const each = ["request", "reply", compacted, "request", "reply", compacted, "request", "reply"];
      assert.deepEqual(found, each, `${logical}`);
    }
});

test("messages that a compaction kept come after its summary, and later ones follow the last of them", () => {
  const segment = { headUuid: "a1", tailUuid: "h1", anchorUuid: "s" };
  const messages = { uuids: ["a1", "h1"], anchorUuid: "s" };
  for (const kept of [{ preservedSegment: segment }, { preservedMessages: messages, preservedSegment: segment }]) {
    const { events, skipped } = readRecording(
      linesOf(...turn(1, null), hook("h1", "a1"), announce("b", kept), continues("s", "b"), ...turn(2, "h1")),
    );
    const found = events.map(outlineOf).filter((each) => each !== "call");
    assert.deepEqual(found, ["request", "reply", "rewrite (summary, reply)", "request", "reply"]);
    assert.deepEqual(skipped, [{ reason: "system line", count: 2, line: undefined }]);
  }
});

test("what a fork repeats is there once, and what the user took back isn't", () => {
  const textsIn = (...lines: object[]) =>
    eventsIn(...lines).flatMap((event) => (event.type === "message" ? event.blocks.map(textOf) : []));
  const past = [...turn(1, null), ...turn(2, "a1")];
  const all = ["Request 1.", "Reply 1.", "Request 2.", "Reply 2."];
  assert.deepEqual(textsIn(...past, ...past), all);
  assert.deepEqual(textsIn(...past, line("u2", "a2b", 2, said("m2", text("Reply 2.")))), all);
  assert.deepEqual(textsIn(...past, ...turn(3, "a1")), ["Request 1.", "Reply 1.", "Request 3.", "Reply 3."]);
  const copied = [line(null, "c1", 1, user("Request 1.")), line("c1", "c2", 1, said("m1", text("Reply 1.")))];
  assert.deepEqual(textsIn(...past, ...copied), ["Request 1.", "Reply 1."]);
});
