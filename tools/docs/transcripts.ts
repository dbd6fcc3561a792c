/** Records the runs that the pages show, on the local Messages API. */
import { dirname } from "node:path";
import type { JournalEntry } from "../../offline/api/server.ts";
import { groupBy } from "../sessions/numbers.ts";
import { parseLine } from "../sessions/recording.ts";
import { Line } from "../sessions/s06.ts";
import type { Recorded, Recorder } from "./recorder.ts";

const READ_ALL = "Read every file in library/ one by one";
const s06 = (args: string) => `CONTEXT_WINDOW=32000 npm run -s offline -- s06 -y ${args}`;

/** Commands that a page shows, by the name of their run. Those of one run share a folder, as in a reader's terminal. */
const RUNS = {
  s02: [
    'npm run -s offline -- s02 -y "Create greet.mjs with a greet function, then edit it so that it greets in French, and run it."',
  ],
  s03: [
    'npm run -s offline -- s03 -y "Plan and build a module math.mjs with add and multiply, test it, and describe it in MATH.md."',
  ],
  s04: [
    'npm run -s offline -- s04 -y "Have a subagent read every file in skills/debug/ one by one and report what each is about."',
  ],
  s05: ['npm run -s offline -- s05 -y "Load the code-review skill and review agents/s01_agent_loop.ts with it."'],
  demo: ["npm run demo"],
  s06: [
    s06(`'${READ_ALL}; run \`kill -9 $PPID\` when half are read.'`),
    s06("-c 'Go on.'"),
    "grep -h -B 1 -A 2 '\"resume\"' .offline/.transcripts/*.jsonl | tail -n 4 | sed -E 's/.+\"(input|content)\"/…/'",
    'grep -ohE \'"[a-z]+":"Noted library/book-01[^}]+\' .offline/.transcripts/*.jsonl | uniq | tail -n 2',
  ],
};
export const sessions: string[][] = Object.values(RUNS);

/** Returns the text of each file of the runs by its path. Subagents have files of their own. */
export async function recordRuns(record: Recorder): Promise<Record<string, string>> {
  const recorded = Object.entries(RUNS).map(async ([name, [command = ""]]) => filesOf(name, await record(command)));
  const files = (await Promise.all(recorded)).flat();
  return Object.fromEntries(files.map(([file, lines]) => [`tools/docs/runs/${file}.jsonl`, toText(lines)]));
}

type Call = JournalEntry & { lesson: string };
type File = [name: string, lines: Line[]];

/** s06 writes transcripts. What the other lessons said is in the journal. */
function filesOf(run: string, { journal, transcripts }: Recorded): File[] {
  const calls: Call[] = linesIn(journal).map((line) => JSON.parse(line));
  const others = groupBy(calls, ({ lesson }) => lesson);
  others.delete("s06");
  const files = [...others].flatMap(([lesson, entries]) => {
    const name = lesson === run ? run : `${run}_${lesson}`;
    const { parent, task } = conversationsIn(entries);
    const all: File[] = [
      [name, parent],
      [`tasks/${name}`, task],
    ];
    return all.filter(([, lines]) => lines.length > 0);
  });
  const newest = Object.keys(transcripts)
    .filter((file) => dirname(file) === ".")
    .sort()
    .at(-1);
  if (!newest) return files;
  const lines = linesIn(transcripts[newest]).map((line) => Line.parse(parseLine(line))); // -c copies what it continues
  return [...files, [run, lines]];
}

const linesIn = (text = "") => text.split("\n").filter((line) => line !== "");

/** Returns what a lesson and its subagents said and used, as s06 writes it into its transcripts. */
function conversationsIn(calls: Call[]): Record<"parent" | "task", Line[]> {
  const lines: Record<"parent" | "task", Line[]> = { parent: [], task: [] };
  const known = { parent: 0, task: 0 }; // messages
  const { model = "", system } = calls[0]?.request ?? {};
  if (system) lines.parent.push(Line.parse({ model, system }));
  for (const { request, reply, usage } of calls) {
    const agent = request.system === system ? "parent" : "task"; // each has its own system prompt
    if (request.messages.length < known[agent]) known[agent] = 0; // another subagent
    const add = (...more: unknown[]) => lines[agent].push(...more.map((line) => Line.parse(line)));
    add(...request.messages.slice(known[agent]).map((message) => ({ model, message })));
    if (reply) add({ model, usage }, { model, message: { role: "assistant", content: reply } });
    known[agent] = request.messages.length + 1;
  }
  return lines;
}

const START = Date.UTC(2026, 0, 5, 9);
const STEP = 12_000; // ms from one line to the next

/** The rehearsal model answers in no time, so the lines get the times of a real model. */
function toText(lines: Line[]): string {
  let time = START;
  const timed = lines.map((line, i) => {
    const before = lines[i - 1];
    const isReply = before !== undefined && "usage" in before; // it comes with its usage
    if (!isReply) time += STEP;
    return `${JSON.stringify({ ...line, time })}\n`;
  });
  return timed.join("");
}
