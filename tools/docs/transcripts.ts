/** Records the runs that the pages show, on the local Messages API. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { codeHash } from "../lesson/hash.ts";
import { parseLine } from "../sessions/recording.ts";
import { Line } from "../sessions/s06.ts";
import type { Project } from "./render.ts";

/** `lesson` is missing if the run has its name. `script` is a shell command that runs the lesson and leaves its transcripts in the folder out/. */
type Run = { name: string; lesson?: string; script: string };

/**
 * In s06, nine files fill the prompt, and layer 1 clears five of them. After the eleventh, which is long, too little is
 * left to clear: layer 2. Then a command kills the program in the middle of a turn, and another program goes on in a copy
 * of its transcript, with a cold cache.
 */
const KILLED_AND_CONTINUED = `mkdir -p .offline/notes .offline/drafts
note() { (echo Fact: \${1: -2}; seq 10000 $((10000 + $2))) > .offline/$1.txt; }
note notes/10 480; note notes/11 900; note notes/12 560; note notes/13 740; note notes/14 620
note notes/15 780; note notes/16 420; note notes/17 660; note notes/18 700; note notes/19 50
(echo Fact: 20; seq -f 'line %g of a long file' 950) > .offline/notes/20.txt
for i in {21..27}; do note drafts/$i 750; done
export COMPACT_THRESHOLD=16000
printf '%s\\n' 'Read every file in notes/ one by one.' /compact 'Read every file in drafts/ one by one.' 'Run \`kill -9 $PPID\`.' |
  npm run -s offline -- s06 -y
echo 'Run \`wc -l drafts/*\`.' | npm run -s offline -- s06 -y --continue
mkdir out; cp .offline/.transcripts/transcript_*.jsonl out`;

const runOf = (name: string, request: string): Run => ({
  name,
  script: `npm run -s offline -- --save out ${name} -y '${request}'`,
});
const RUNS: Run[] = [
  runOf("s01", "Create hello.mjs, a script that prints Hello, World!, and run it."),
  runOf("s02", "Create greet.mjs with a greet function, then edit it so that it greets in French, and run it."),
  runOf("s03", "Plan and build a module math.mjs with add and multiply, test it, and describe it in MATH.md."),
  runOf("s04", "Have a subagent read every file in skills/debug/ one by one and report what each is about."),
  runOf("s05", "Load the code-review skill and review agents/s01_agent_loop.ts with it."),
  { name: "s06", script: KILLED_AND_CONTINUED },
  { name: "demo", lesson: "s06", script: "npm run -s demo -- out" },
];

/** @returns the text of each file of a run by its path; subagents have a file of their own */
export async function recordRuns({ root, lessons, record }: Project): Promise<Record<string, string>> {
  const runs = RUNS.filter(({ name, lesson = name }) => lessons.has(lesson));
  const recorded = runs.map(async ({ name, lesson = name, script }) => {
    const { output, transcripts } = await record(script);
    const code = codeHash(readFileSync(join(root, lessons.get(lesson)?.file ?? ""), "utf8"));
    const names = Object.keys(transcripts).sort();
    const tasks = names.filter((file) => dirname(file) === "tasks");
    const newest = names.findLast((file) => dirname(file) === "."); // -c copies what it continues, so the newest has all lines
    if (newest === undefined) throw new Error(`${script} left no transcript:\n${output}`);
    const toFile = (folder: string, files: string[]): [string, string] => {
      const text = files.map((file) => transcripts[file]).join("");
      return [`tools/docs/runs/${folder}${name}.jsonl`, toRun(text, code)];
    };
    return [toFile("", [newest]), ...(tasks.length > 0 ? [toFile("tasks/", tasks)] : [])];
  });
  return Object.fromEntries((await Promise.all(recorded)).flat());
}

const START = Date.UTC(2026, 0, 5, 9);
const STEP = 12_000; // ms from one line to the next
const BREAK = 600_000; // ms before a conversation is resumed

/** Keeps the events of a transcript. The rehearsal model answers in no time, so they get the times of a real model. */
function toRun(transcript: string, code: string): string {
  const saved = transcript.trimEnd().split("\n");
  const events = saved.map((line) => Line.parse(parseLine(line)));
  let time = START;
  const lines = events.map((event, i) => {
    const before = events[i - 1];
    const isReply = before !== undefined && "usage" in before; // it comes with its usage
    const isResumed = "messages" in event && event.trigger === "resume";
    if (isResumed) time += BREAK;
    else if (!isReply) time += STEP;
    return `${JSON.stringify({ ...(i === 0 && { code }), ...event, time })}\n`;
  });
  return lines.join("");
}
