// The compaction in a dozen lines that s06's page begins with: four things that go wrong with it, and s06 at the same task.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { beforeEach, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { compact } from "../docs/smallest_compaction.ts";
import { bash, call, say, use, user } from "../offline/api/said.ts";
import type { Model, Reply } from "../offline/api/server.ts";
import { expectRejection, useServer } from "./server.ts";
import { load, type Messages, optionsFor, resultsIn, watch } from "./turn.ts";
import { emptyWorkspace, useWorkspace, writeFiles } from "./workspace.ts";

useWorkspace();
await useServer();
type S06 = typeof import("../agents/s06_context_compact.ts");
const s06 = await load<S06>("agents/s06_context_compact.ts", { COMPACT_THRESHOLD: "50000" }); // the same for both
const client = new Anthropic();
beforeEach(emptyWorkspace);

const SUMMARIZE = "Summarize this conversation"; // s06's request begins like this

async function ask(messages: Messages, tools: Anthropic.Tool[] = []): Promise<Anthropic.Message> {
  const thinking = { type: "adaptive", display: "summarized" } as const;
  return client.messages.stream({ model: s06.MODEL, max_tokens: 32_000, thinking, tools, messages }).finalMessage();
}

/** s05's loop, with the smallest compaction before each model call. */
async function smallestLoop(messages: Messages): Promise<void> {
  const summarize = async (text: string) => JSON.stringify((await ask([user(`${SUMMARIZE}:\n${text}`)])).content);
  while (true) {
    await compact(messages, summarize);
    const { content } = await ask(messages, s06.TOOLS);
    messages.push({ role: "assistant", content });
    const calls = content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return;
    const results: Anthropic.ToolResultBlockParam[] = [];
    for (const { id, name, input } of calls) {
      const result = await s06.TOOL_HANDLERS[name]?.(input, optionsFor(s06));
      results.push({ type: "tool_result", tool_use_id: id, content: String(result) });
    }
    messages.push({ role: "user", content: results });
  }
}

/** Carries out a request with the smallest compaction, and with s06. */
const withSmallest = (model: Model, request: string) => watch(model, () => smallestLoop([user(request)]));
const withS06 = (model: Model, request: string) => watch(model, () => s06.runTurn([], request, optionsFor(s06)));

/** A model that gives these replies in order, and a summary whenever it's asked for one. */
function modelOf(replies: Reply[], thinks = false): Model {
  const left = [...replies];
  return ({ messages }) => {
    const isSummary = JSON.stringify(messages.at(-1)).includes(SUMMARIZE);
    return { ...(isSummary ? say("All is well.") : (left.shift() ?? say("Done."))), thinks };
  };
}

const print = (length: number) => `printf '%0${length}d'`; // prints this many zeros

test("with thinking on, the API rejects the prompt after the first clearing, but not after s06's", async () => {
  const replies = Array.from({ length: 40 }, () => bash(print(6_000)));
  expectRejection(/Invalid `signature` in `thinking` block/);
  const smallest = await withSmallest(modelOf(replies, true), "go");
  assert.match(String(smallest.error), /400.*Invalid `signature`/);
  assert.equal(smallest.sent.length, 5); // with four results, the first is cleared
  const { error, printed } = await withS06(modelOf(replies, true), "go");
  assert.equal(error, undefined);
  assert.match(printed, /\[micro_compact\]/);
});

test("of five results that arrive together the model sees three, and with s06 all", async () => {
  const replies = [bash(...Array.from({ length: 5 }, () => print(40_000)))];
  const shown = ({ sent }: { sent: { messages: Messages }[] }) =>
    resultsIn(sent[1]?.messages).filter(({ text }) => text.length === 40_000).length;
  assert.equal(shown(await withSmallest(modelOf(replies), "go")), 3);
  assert.equal(shown(await withS06(modelOf(replies), "go")), 5); // though they exceed its threshold
});

test("a file shown by cat four results ago can't be edited any more, and with s06 it can", async () => {
  const config = "port = 8080\n".padEnd(200, "#");
  const commands = ["cat config", print(200), print(200), print(200)];
  const edit = use("edit_file", { path: "config", old_text: "port = 8080", new_text: "port = 9090" });
  /** Edits what it sees. */
  const model = (): Model => {
    const next = modelOf(commands.map((command) => bash(command)));
    return (request) => {
      const reply = next(request);
      const results = resultsIn(request.messages);
      const canEdit = results.length === commands.length && results.some(({ text }) => text.includes("port = 8080"));
      return canEdit ? { ...call(edit), thinks: false } : reply;
    };
  };
  writeFiles(".", { config });
  await withSmallest(model(), "Change the port.");
  assert.equal(readFileSync("config", "utf8"), config);
  await withS06(model(), "Change the port.");
  assert.match(readFileSync("config", "utf8"), /^port = 9090/);
});

test("after a summary of the last 80,000 characters the user's words are gone; s06 keeps them and summarizes all", async () => {
  const names = ["a", "b", "c", "d", "e"];
  writeFiles(".", Object.fromEntries(names.map((name) => [name, `This is ${name}. `.repeat(3_900)])));
  const replies = names.map((name) => call(use("read_file", { path: name })));
  const request = "Answer in French.";
  const seen = ({ sent }: { sent: { messages: Messages }[] }) => {
    const prompts = sent.map(({ messages }) => JSON.stringify(messages));
    const summarized = prompts.findIndex((prompt) => prompt.includes(SUMMARIZE));
    return { bySummarizer: prompts[summarized] ?? "", afterwards: prompts[summarized + 1] ?? "" };
  };
  const smallest = seen(await withSmallest(modelOf(replies), request));
  assert.doesNotMatch(smallest.bySummarizer, /This is a\. /);
  assert.doesNotMatch(smallest.afterwards, /in French/);
  const own = seen(await withS06(modelOf(replies), request));
  assert.match(own.bySummarizer, /This is a\. /);
  assert.match(own.afterwards, /in French/);
});
