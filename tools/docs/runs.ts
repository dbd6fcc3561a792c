/** Records the runs that the site shows: a request from each lesson's page, and the demo, on the local Messages API. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { codeHash } from "../lesson/hash.ts";
import type { Project } from "./render.ts";

/** `command` starts the lesson; `output` is a shell command that prints the trace of what it did. */
type Run = { lesson: string; command: string; output: string };
type Line = { trigger?: string; task?: boolean; state: { lastCall: number } };

/** What is typed into s01 to s05. */
const REQUESTS: Record<string, string> = {
  s01: "Create hello.mjs, a script that prints Hello, World!, and run it.",
  s02: "Create greet.mjs with a greet function, then edit it so that it greets in French, and run it.",
  s03: "Plan and build a module math.mjs with add and multiply, test it, and describe it in MATH.md.",
  s04: "Have a subagent read every file in skills/debug/ one by one and report what each is about.",
  s05: "Load the code-review skill and review agents/s01_agent_loop.ts with it.",
};

/** In s06, a command kills the program in the middle of a turn, and another program continues its transcript. */
const KILLED_AND_CONTINUED = `mkdir -p .offline/notes
(echo Fact: 10; seq 100000000000000000 100000000000000980) > .offline/notes/10.txt
for i in {11..14}; do (echo Fact: $i; seq 10000 10935) > .offline/notes/$i.txt; done
(echo Fact: 15; seq 80) > .offline/notes/15.txt
(echo Fact: 16; seq 100000000000000 100000000000980) > .offline/notes/16.txt
for i in {17..23}; do (echo Fact: $i; seq 10000 10750) > .offline/notes/$i.txt; done
export COMPACT_THRESHOLD=16000
printf '%s\\n' 'Read every file in notes/ one by one; use the compact tool when half are read.' 'Run \`kill -9 $PPID\`.' |
  npm run -s offline -- s06 -y
echo 'Run \`wc -l notes/*\`.' | npm run -s offline -- s06 -y --continue
cat .offline/.transcripts/transcript_*.jsonl`;

function runsOf(lessons: Iterable<string>): Map<string, Run> {
  const runs = new Map<string, Run>();
  for (const lesson of lessons) {
    const command = `npm run offline -- ${lesson} -y`;
    const request = REQUESTS[lesson];
    if (request)
      runs.set(lesson, { lesson, command, output: `npm run -s offline -- --journal ${lesson} -y '${request}'` });
    if (lesson !== "s06") continue;
    runs.set("s06", { lesson, command: `COMPACT_THRESHOLD=16000 ${command}`, output: KILLED_AND_CONTINUED });
    runs.set("demo", { lesson, command: "npm run demo", output: "npm run -s demo -- out; cat out/transcript_*.jsonl" });
  }
  return runs;
}

/** @returns the text of each file of a run by its path; subagents have a file of their own */
export async function recordRuns({ root, lessons, record }: Project): Promise<Record<string, string>> {
  const files = [...runsOf(lessons.keys())].map(async ([name, { lesson, command, output }]) => {
    const printed = await record(output);
    const code = codeHash(readFileSync(join(root, lessons.get(lesson)?.file ?? ""), "utf8"));
    const lines = setTimes((printed.match(/^\{"(message|type)".*/gm) ?? []).map((line) => JSON.parse(line)));
    const textOf = ([first, ...rest]: Line[]) =>
      [{ code, command, ...first }, ...rest].map((line) => `${JSON.stringify(line)}\n`).join("");
    const tasks = lines.filter(({ task }) => task);
    const parent = [`tools/docs/runs/${name}.jsonl`, textOf(lines.filter(({ task }) => !task))];
    return tasks.length > 0 ? [parent, [`tools/docs/runs/tasks/${name}.jsonl`, textOf(tasks)]] : [parent];
  });
  return Object.fromEntries((await Promise.all(files)).flat());
}

const START = Date.UTC(2026, 0, 5, 9);
const STEP = 12_000; // ms from one line to the next
const BREAK = 600_000; // ms before a conversation is resumed

/** The rehearsal model answers in no time, so the lines get times as a real model would leave them. */
function setTimes(lines: Line[]): Line[] {
  const calls = new Map([[0, 0]]); // from the recorded time of a model call to its new one; 0 stays "never"
  let time = START;
  return lines.map(({ state, ...line }) => {
    time += line.trigger === "resume" ? BREAK : STEP;
    if (!calls.has(state.lastCall)) calls.set(state.lastCall, time);
    return { ...line, time, state: { ...state, lastCall: calls.get(state.lastCall) ?? 0, file: undefined } };
  });
}
