/** Records the runs that the site shows: a request from each lesson's page, and the demo, on the local Messages API. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { codeHash } from "../lesson/hash.ts";
import { parseLine } from "../trace/recording.ts";
import { Line } from "../trace/s06.ts";
import type { Project } from "./render.ts";

/** `command` starts the lesson; `script` is a shell command that runs it and leaves its transcripts in the folder out/. */
type Run = { lesson: string; command: string; script: string };

/** What is typed into s01 to s05. */
const REQUESTS: Record<string, string> = {
  s01: "Create hello.mjs, a script that prints Hello, World!, and run it.",
  s02: "Create greet.mjs with a greet function, then edit it so that it greets in French, and run it.",
  s03: "Plan and build a module math.mjs with add and multiply, test it, and describe it in MATH.md.",
  s04: "Have a subagent read every file in skills/debug/ one by one and report what each is about.",
  s05: "Load the code-review skill and review agents/s01_agent_loop.ts with it.",
};

/** In s06, a command kills the program in the middle of a turn, and another program goes on in a copy of its transcript. */
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
mkdir out; cp .offline/.transcripts/transcript_*.jsonl out`;

function runsOf(lessons: Iterable<string>): Map<string, Run> {
  const runs = new Map<string, Run>();
  for (const lesson of lessons) {
    const command = `npm run offline -- ${lesson} -y`;
    const request = REQUESTS[lesson];
    const script = `npm run -s offline -- --save out ${lesson} -y '${request}'`;
    if (request) runs.set(lesson, { lesson, command, script });
    if (lesson !== "s06") continue;
    runs.set("s06", { lesson, command: `COMPACT_THRESHOLD=16000 ${command}`, script: KILLED_AND_CONTINUED });
    runs.set("demo", { lesson, command: "npm run demo", script: "npm run -s demo -- out" });
  }
  return runs;
}

/** @returns the text of each file of a run by its path; subagents have a file of their own */
export async function recordRuns({ root, lessons, record }: Project): Promise<Record<string, string>> {
  const recorded = [...runsOf(lessons.keys())].map(async ([name, { lesson, command, script }]) => {
    const { output, transcripts } = await record(script);
    const code = codeHash(readFileSync(join(root, lessons.get(lesson)?.file ?? ""), "utf8"));
    const names = Object.keys(transcripts).sort();
    const tasks = names.filter((file) => dirname(file) === "tasks");
    const newest = names.findLast((file) => dirname(file) === "."); // it begins with the lines that it continues
    if (newest === undefined) throw new Error(`${script} left no transcript:\n${output}`);
    const toFile = (folder: string, files: string[]): [string, string] => {
      const text = files.map((file) => transcripts[file]).join("");
      return [`tools/docs/runs/${folder}${name}.jsonl`, toRun(text, { code, command })];
    };
    return [toFile("", [newest]), ...(tasks.length > 0 ? [toFile("tasks/", tasks)] : [])];
  });
  return Object.fromEntries((await Promise.all(recorded)).flat());
}

const START = Date.UTC(2026, 0, 5, 9);
const STEP = 12_000; // ms from one line to the next
const BREAK = 600_000; // ms before a conversation is resumed

/** Keeps the events of a transcript. The rehearsal model answers in no time, so they get the times of a real model. */
function toRun(transcript: string, head: { code: string; command: string }): string {
  const events = transcript
    .trimEnd()
    .split("\n")
    .map((line) => Line.parse(parseLine(line)));
  let time = START;
  const lines = events.map((event, i) => {
    const before = events[i - 1];
    const isReply = before !== undefined && "usage" in before; // it comes with its usage
    const isResumed = "messages" in event && event.trigger === "resume";
    if (isResumed) time += BREAK;
    else if (!isReply) time += STEP;
    return `${JSON.stringify({ ...(i === 0 && head), ...event, time })}\n`;
  });
  return lines.join("");
}
