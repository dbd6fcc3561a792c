/**
 * The demo: s05 and then s06 get the same request, in a window that is too small for the answer. s05 has to run into it. In
 * s06, all three layers have to act, and the answer has to be right: if a compaction loses a fact, the model reads again.
 */
import type { StdioOptions } from "node:child_process";
import { say } from "./api/said.ts";
import type { JournalEntry, Model } from "./api/server.ts";
import { isSummaryCall, rehearse } from "./model.ts";
import { runOffline } from "./offline.ts";
import { DEFAULTS } from "./start.ts";
import { CLEARED, PRINTED } from "./wording.ts";
import { LIBRARY } from "./world.ts";

const WINDOW = 32_000; // tokens
const REQUEST = "Read every file in library/ one by one; use the compact tool when half are read.";

type Run = { code: number; journal: JournalEntry[] };

/** Runs the demo and prints the result. Returns the exit code. */
export async function demo(): Promise<number> {
  process.on("SIGINT", () => process.exit(1)); // otherwise it would go on with the other lesson
  console.log(`First s05, then s06 gets this request, in a window of ${WINDOW} tokens:\n${REQUEST}`);
  const [s05, s06] = [await run("s05"), await run("s06")];
  const { lines, faults } = judge(s05, s06);
  for (const line of lines) console.log(line);
  for (const fault of faults) console.log(`demo failed: ${fault}`);
  return faults.length > 0 ? 1 : 0;
}

const BARS = "▁▂▃▄▅▆▇█";

/** Runs a lesson, and draws a bar for each model call: its prompt's share of the window. */
export async function run(lesson: string): Promise<Run> {
  const env = { ...process.env, ...DEFAULTS, CONTEXT_WINDOW: `${WINDOW}` };
  const stdio: StdioOptions = ["ignore", "ignore", "inherit"];
  let calls = 0;
  const model: Model = (request) => (calls++ < 3 * LIBRARY.length ? rehearse(request) : say("I'm reading in circles."));
  const onAnswer = ({ promptTokens }: JournalEntry) =>
    process.stdout.write(BARS[Math.floor((promptTokens / WINDOW) * BARS.length)] ?? "×");
  process.stdout.write(`${lesson} `);
  const result = await runOffline(lesson, ["-y", REQUEST], { env, stdio }, { model, onAnswer });
  console.log();
  return result;
}

/** Returns what to print about the two runs, and what went wrong in them. */
export function judge(s05: Run, s06: Run): { lines: string[]; faults: string[] } {
  const layers = countLayers(s06.journal);
  const [before, after] = [readsIn(s05.journal), readsIn(s06.journal)];
  const end = s05.journal.at(-1);
  const reason = end?.error?.split(":")[0] ?? `${end?.stop_reason}`;
  const files = new Set(after).size;
  const again = after.length - files;
  const answer = s06.journal.at(-1)?.reply?.at(-1);
  const right = LIBRARY.filter(({ path, fact }) => answer?.type === "text" && answer.text.includes(`${path}: ${fact}`));
  const error = s06.journal.find((call) => call.error)?.error;
  const faults = {
    "s05 didn't run into the window": !/^(prompt is too long|model_context_window_exceeded)$/.test(reason),
    [`s06 ended with exit code ${s06.code}`]: s06.code !== 0,
    [`the API rejected a request of s06: ${error}`]: error !== undefined,
    "a layer didn't act": layers.some(({ times }) => times === 0),
    "the answer lacks facts": right.length < LIBRARY.length,
    "a compaction lost what was in a file": again > 0,
  };
  const lines = [
    ...layers.map(({ printed, times }, i) => `layer ${i + 1}: ${printed} × ${times}`),
    `s05: ${before.length} files read, then: ${reason}`,
    `s06: ${files} files read, ${again || "none"} of them twice, and ${right.length} of ${LIBRARY.length} facts right`,
  ];
  return { lines, faults: Object.keys(faults).filter((fault) => faults[fault]) };
}

/** Returns the files that the model has read, once for each time: the input of each such call whose result it was sent. */
function readsIn(journal: JournalEntry[]): string[] {
  const sent = journal.filter(({ error }) => !error).flatMap(({ request }) => request.messages);
  const blocks = sent.flatMap(({ content }) => (typeof content === "string" ? [] : content));
  const calls = blocks.flatMap((block) => (block.type === "tool_use" && block.name === "read_file" ? block : []));
  return [...new Map(calls.map(({ id, input }) => [id, JSON.stringify(input)])).values()];
}

/** Returns how often each layer acted: 1 leaves more placeholders than there were, 2 and 3 ask for a summary. */
function countLayers(journal: JournalEntry[]) {
  const cleared = journal.map(({ request }) => JSON.stringify(request.messages).split(CLEARED).length);
  const summaries = journal.flatMap(({ request }, i) => (isSummaryCall(request) ? [journal[i - 1]?.reply ?? []] : []));
  const isAsked = summaries.map((reply) =>
    reply.some((block) => block.type === "tool_use" && block.name === "compact"),
  );
  return [
    { printed: PRINTED.micro, times: cleared.filter((count, i) => count > (cleared[i - 1] ?? 1)).length },
    { printed: PRINTED.auto, times: isAsked.filter((asked) => !asked).length },
    { printed: PRINTED.tool, times: isAsked.filter((asked) => asked).length },
  ];
}
