/**
 * Speed and size of s06: what it costs per turn to count the context and to clear it, whether 10,000 rounds get slower or
 * larger, what a transcript of 100 MB costs, and how long each lesson takes to start. `npm run bench:speed`
 * prints it and keeps it in bench/results.json.
 *
 * Each part runs on the lesson as it is, in a process and an empty folder of its own; the server stays in this process.
 * Times are medians after warming up. They vary with the machine and with what else it does, on a busy one twofold; ratios
 * of times from one run vary by some 20 %, memory by some MB.
 */
import { fork, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import { z } from "zod";
import { startServer } from "../offline/server.ts";
import { keep } from "./results.ts";
import { table } from "./table.ts";

const FILE = fileURLToPath(import.meta.url);
const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Tokens of history, at the 4 characters a token that s06 begins with. */
const HISTORIES = [50_000, 200_000, 1_000_000];
/** Rounds through agentLoop after which time and memory are looked at, and rounds of each request. */
const MARKS = [1_000, 10_000];
const PER_REQUEST = 50;
/** Limits at which s06 compacts every few of these rounds, and files that they read. */
const LIMITS = { COMPACT_THRESHOLD: "5000", COMPACT_MIN_SAVINGS: "500" };
const FILES = 200;
/** Bytes of the large transcript, messages appended to it, and times that it is read. */
const LARGE = 100_000_000;
const APPENDED = 1_000;
const READINGS = 3;
/** Times that each lesson is started. */
const STARTS = 5;

// #region figures

const Reading = z.object({
  time: z.number(),
  /** What the process grew by at its largest. */
  peak: z.number(),
});

const Mark = z.object({
  /** Since the start. */
  rounds: z.number(),
  /** Per round, the server's part included, and the lesson's processor time per round. */
  time: z.number(),
  cpu: z.number(),
  /** After a garbage collection: of the process, and of its heap what is in use. */
  resident: z.number(),
  heap: z.number(),
});

/** What each part measures; times in ms, sizes in bytes. */
const Shape = z.object({
  layer1: z.array(
    z.object({
      /** Of history. */
      tokens: z.number(),
      /** Per turn below the limit: the context is counted before the call and after the reply. */
      below: z.number(),
      /** Per turn past the limit as long as layer 1 would save too little: it looks, and the context is counted twice more. */
      waiting: z.number(),
      /** Of the turn in which layer 1 clears: the context is counted once more. */
      clearing: z.number(),
    }),
  ),
  rounds: z.object({
    /** Times that layer 1 and layer 2 acted in all. */
    cleared: z.number(),
    compacted: z.number(),
    marks: z.array(Mark),
  }),
  /** Per message that is appended to a new transcript, and to the large one. */
  append: z.object({ fresh: z.number(), large: z.number() }),
  /** The large transcript: `resume`, and only reading it and parsing its lines as JSON. */
  resume: Reading,
  plain: Reading,
  start: z.object({
    /** Why there are no times without tsx. */
    missing: z.string().optional(),
    /** From the start of the program to its end, when all that it reads is `q`; "nothing" is an empty script. */
    lessons: z.array(z.object({ name: z.string(), tsx: z.number(), node: z.number().optional() })),
  }),
});
export type Speed = z.output<typeof Shape>;

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
const collect = () => global.gc?.();

// #endregion
// #region histories

type Messages = Anthropic.MessageParam[];

const CODE = readFileSync(new URL("../agents/s06_context_compact.ts", import.meta.url), "utf8");

/** A round as an agent makes it: notes, a call, and a result of 3,000 to 8,000 characters of code. */
function codingRound(i: number): Messages {
  const [length, at] = [3_000 + ((i * 1_237) % 5_000), (i * 977) % (CODE.length - 8_000)];
  const id = `toolu_${String(i).padStart(24, "0")}`;
  const input = { path: `src/part-${i}.ts`, offset: 1 + (i % 200), limit: 200 };
  const thinking = `It is not in part ${i - 1}; the next one may call it.`;
  const round: Messages = [
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking, signature: "c".repeat(180) },
        { type: "text", text: `Now part ${i}, for what calls this function.` },
        { type: "tool_use", id, name: "read_file", input },
      ],
    },
    { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: CODE.slice(at, at + length) }] },
  ];
  return JSON.parse(JSON.stringify(round)); // a slice would be a view of the whole text
}

/** Writes a transcript of LARGE bytes: every 100 rounds a compaction that keeps the newest 10. */
function writeLarge(file: string): void {
  const messages = Array.from({ length: 100 }, (_, i) => codingRound(i)).flat();
  const compaction = { type: "compaction", trigger: "auto", before: 9, after: 1, messages: messages.slice(-20) };
  const part = [...messages, compaction].map((entry) => `${JSON.stringify(entry)}\n`).join("");
  for (let size = 0; size < LARGE; size += part.length) appendFileSync(file, part);
}

// #endregion
// #region parts

/** Tells how far a part is, 0 to 1. */
type Tell = (share: number) => void;
const importLesson = () => import("../agents/s06_context_compact.ts");

async function layer1(tell: Tell): Promise<Speed["layer1"]> {
  const { estimateTokens, microCompact } = await importLesson();
  const ways = {
    below: [estimateTokens, estimateTokens],
    waiting: [
      estimateTokens,
      (history: Messages) => microCompact(history, Number.POSITIVE_INFINITY),
      estimateTokens,
      estimateTokens,
      estimateTokens,
    ],
    clearing: [estimateTokens, microCompact, estimateTokens, estimateTokens],
  };
  return HISTORIES.map((tokens, i) => {
    const messages: Messages = [{ role: "user", content: "Find out what calls this function." }];
    while (estimateTokens(messages) < tokens) messages.push(...codingRound(messages.length));
    const runs = Math.max(20, 10_000_000 / tokens);
    const timeOf = (steps: ((history: Messages) => unknown)[]) => {
      const times = Array.from({ length: runs }, () => {
        const history = structuredClone(messages);
        estimateTokens(history); // notes the history as a known one
        const start = performance.now();
        for (const step of steps) step(history);
        return performance.now() - start;
      });
      return median(times.slice(runs / 4));
    };
    const figures = { below: timeOf(ways.below), waiting: timeOf(ways.waiting), clearing: timeOf(ways.clearing) };
    tell((i + 1) / HISTORIES.length);
    return { tokens, ...figures };
  });
}

async function rounds(tell: Tell): Promise<Speed["rounds"]["marks"]> {
  const { agentLoop } = await importLesson();
  for (let i = 0; i < FILES; i++) writeFileSync(`part-${i}.txt`, `Line of part ${i}.\n`.repeat(40));
  const last = Math.max(...MARKS);
  const messages: Messages = [];
  const requests: { time: number; cpu: number }[] = [];
  const marks: Speed["rounds"]["marks"] = [];
  for (let done = PER_REQUEST; done <= last; done += PER_REQUEST) {
    messages.push({ role: "user", content: "Read the next parts." });
    const [start, before] = [performance.now(), process.cpuUsage()];
    await agentLoop(messages, { signal: new AbortController().signal });
    const { user, system } = process.cpuUsage(before);
    requests.push({ time: (performance.now() - start) / PER_REQUEST, cpu: (user + system) / 1_000 / PER_REQUEST });
    tell(done / last);
    if (!MARKS.includes(done)) continue;
    const near = requests.slice(-500 / PER_REQUEST);
    const [time, cpu] = [median(near.map((each) => each.time)), median(near.map((each) => each.cpu))];
    collect();
    const { rss, heapUsed } = process.memoryUsage();
    marks.push({ rounds: done, time, cpu, resident: rss, heap: heapUsed });
  }
  return marks;
}

/** Appends through autoCompact, which records what is new and then leaves so short a history as it is. */
async function append(tell: Tell): Promise<Speed["append"]> {
  const { autoCompact, resume, TRANSCRIPT_DIR } = await importLesson();
  const timeIn = async (messages: Messages) => {
    const times: number[] = [];
    for (let i = 0; times.length < APPENDED; i++) {
      for (const message of codingRound(i)) {
        messages.splice(0, messages.length, message);
        const start = performance.now();
        await autoCompact(messages);
        times.push(performance.now() - start);
      }
    }
    return median(times.slice(APPENDED / 4));
  };
  const fresh = await timeIn([]);
  tell(0.5);
  const file = join(TRANSCRIPT_DIR, "transcript_1000_1.jsonl");
  writeLarge(file);
  const large = await timeIn(resume(file));
  return { fresh, large };
}

async function measureReading(read: (file: string) => unknown, tell: Tell): Promise<z.output<typeof Reading>> {
  const file = "large.jsonl";
  writeLarge(file);
  collect();
  const before = process.memoryUsage().rss;
  const times: number[] = [];
  let peak = 0;
  while (times.length < READINGS) {
    const start = performance.now();
    read(file);
    times.push(performance.now() - start);
    peak ||= process.resourceUsage().maxRSS * 1024 - before; // of the first: what it leaves is in the way of the next
    tell(times.length / READINGS);
  }
  return { time: median(times), peak };
}

const resume = async (tell: Tell) => measureReading((await importLesson()).resume, tell);
const plain = (tell: Tell) =>
  measureReading((file) => {
    for (const line of readFileSync(file, "utf8").split("\n")) if (line) JSON.parse(line);
  }, tell);

// #endregion
// #region processes

const PARTS: Record<string, (tell: Tell) => Promise<unknown>> = { layer1, rounds, append, resume, plain };

/** Does something with an empty folder and an environment in which lessons have no settings but these. */
async function apart<T>(
  settings: Record<string, string>,
  work: (options: { cwd: string; env: Record<string, string | undefined> }) => T | Promise<T>,
): Promise<T> {
  const own = /^(MODEL_ID|THINKING|CONTEXT_WINDOW|COMPACT_.*|ANTHROPIC_.*)$/;
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !own.test(name)));
  const cwd = realpathSync(mkdtempSync(join(tmpdir(), "speed-")));
  try {
    return await work({ cwd, env: { ...env, ANTHROPIC_API_KEY: "offline", ...settings } });
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

/** Runs a part in a process of its own. @returns what it measured, and all lines that the lesson printed */
const runPart = (name: string, tell: Tell, settings: Record<string, string> = {}) =>
  apart(settings, async (options) => {
    const execArgv = ["--import", import.meta.resolve("tsx"), "--expose-gc"];
    const child = fork(FILE, [name], { ...options, execArgv, stdio: ["ignore", "pipe", "inherit", "ipc"] });
    let printed = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      printed += text;
    });
    let measured: unknown;
    child.on("message", (message) => {
      if (typeof message === "number") tell(message);
      else measured = message;
    });
    const [code] = await once(child, "close");
    if (code !== 0) throw new Error(`bench/speed.ts: ${name} ended with exit code ${code}:\n${printed.slice(-1_000)}`);
    return { measured, printed };
  });

/** The rounds, with a model that has files read one by one and answers at the end of each request. */
async function runRounds(tell: Tell): Promise<Speed["rounds"]> {
  let replies = 0;
  let compacted = 0;
  const server = await startServer({
    model({ messages }) {
      server.journal.length = 0;
      const asked = messages.at(-1)?.content;
      if (typeof asked === "string" && asked.startsWith("Write a summary")) {
        compacted++;
        return { content: [{ type: "text", text: "Parts were read; the next ones follow." }] };
      }
      replies++;
      if (replies % PER_REQUEST === 0) return { content: [{ type: "text", text: "These are read." }] };
      return { content: [{ type: "tool_use", name: "read_file", input: { path: `part-${replies % FILES}.txt` } }] };
    },
  });
  try {
    const { measured, printed } = await runPart("rounds", tell, { ANTHROPIC_BASE_URL: server.url, ...LIMITS });
    const cleared = printed.split("[micro_compact]").length - 1;
    return { cleared, compacted, marks: Shape.shape.rounds.shape.marks.parse(measured) };
  } finally {
    await server.close();
  }
}

/** Starts each lesson, and an empty script, with tsx and with a Node that needs none. */
const runStarts = (tell: Tell) =>
  apart({}, ({ cwd, env }): Speed["start"] => {
    const nothing = join(cwd, "nothing.mts");
    writeFileSync(nothing, "const nothing: undefined = undefined;\nexport { nothing };\n");
    const start = (program: string, args: string[]) => {
      const started = performance.now();
      const { status } = spawnSync(program, args, { cwd, env, input: "q\n" });
      return status === 0 ? performance.now() - started : Number.NaN;
    };
    const runtime = `tests/runtimes/node_modules/node24-${process.platform}-${process.arch}/bin/node`;
    const node = [process.execPath, join(ROOT, runtime)].find((program) => start(program, [nothing]) > 0);
    const tsx = fileURLToPath(import.meta.resolve("tsx/cli"));
    const files = readdirSync(join(ROOT, "agents")).map((name) => join(ROOT, "agents", name));
    const lessons = [nothing, ...files.sort()].map((file, i, { length }) => {
      const timeOf = (program: string, args: string[]) =>
        median(Array.from({ length: STARTS }, () => start(program, [...args, file])));
      const times = { tsx: timeOf(process.execPath, [tsx]), node: node ? timeOf(node, []) : undefined };
      tell((i + 1) / length);
      return { name: basename(file).split(/[_.]/)[0] ?? file, ...times };
    });
    const missing = `Node ${process.versions.node} does not run TypeScript, and npm run test:runtimes has not installed one`;
    return node ? { lessons } : { missing, lessons };
  });

/** Measures all of it, in about a minute; `progress` is told the share that is done, 0 to 1, and what is being measured. */
export async function measureSpeed(progress: (share: number, what: string) => void): Promise<Speed> {
  let done = 0;
  /** `seconds`: about what it takes, of which the shares follow. */
  const step = async <T>(seconds: number, what: string, work: (tell: Tell) => Promise<T>): Promise<T> => {
    const tell = (share: number) => progress((done + seconds * share) / 60, what);
    tell(0);
    const result = await work(tell);
    done += seconds;
    return result;
  };
  const part = (name: string) => async (tell: Tell) => (await runPart(name, tell)).measured;
  const speed = {
    layer1: await step(5, "layer 1 and counting", part("layer1")),
    rounds: await step(25, "10,000 rounds", runRounds),
    append: await step(3, "appending to a transcript", part("append")),
    resume: await step(5, "resuming a transcript", part("resume")),
    plain: await step(2, "reading the same file plainly", part("plain")),
    start: await step(20, "starting the lessons", runStarts),
  };
  progress(1, "speed measured");
  return Shape.parse(speed);
}

// #endregion
// #region tables

const whole = (value: number) => value.toLocaleString("en-US", { maximumFractionDigits: 0 });
const ms = (time: number) => `${time.toLocaleString("en-US", { maximumSignificantDigits: time < 100 ? 2 : 3 })} ms`;
const megabytes = (size: number) => `${whole(size / 1e6)} MB`;
const times = (ratio: number) => `${ratio.toPrecision(ratio < 10 ? 2 : 3)}×`;

/** Tables in Markdown, by name. */
export const speedTables: Record<string, (speed: Speed) => string> = {
  "layer-1": ({ layer1 }) =>
    table([
      ["history, tokens", "below the limit", "ratio", "past it, layer 1 waits", "ratio", "layer 1 clears", "ratio"],
      ...layer1.map((at) => [
        whole(at.tokens),
        ...(["below", "waiting", "clearing"] as const).flatMap((way) => [
          ms(at[way]),
          times(at[way] / (layer1[0]?.[way] ?? Number.NaN)),
        ]),
      ]),
    ]),
  rounds({ rounds: { marks, cleared, compacted } }) {
    const [first, last] = [marks[0], marks.at(-1)];
    const ratios = (["time", "cpu", "resident", "heap"] as const).map((figure) =>
      times((last?.[figure] ?? Number.NaN) / (first?.[figure] ?? Number.NaN)),
    );
    const rows = marks.map((at) => [
      whole(at.rounds),
      ms(at.time),
      ms(at.cpu),
      megabytes(at.resident),
      megabytes(at.heap),
    ]);
    const head = ["rounds", "a round", "of it the lesson's processor time", "resident", "heap in use"];
    const acted = `Layer 1 cleared ${whole(cleared)} times, layer 2 compacted ${whole(compacted)} times.`;
    return `${table([head, ...rows, ["ratio", ...ratios]])}\n\n${acted}`;
  },
  transcript: ({ append, resume, plain }) =>
    table([
      ["a transcript of 100 MB", "", "compared with", "", "ratio"],
      [
        "append a message",
        ms(append.large),
        "to a new transcript",
        ms(append.fresh),
        times(append.large / append.fresh),
      ],
      ["resume: time", ms(resume.time), "read and parse alone", ms(plain.time), times(resume.time / plain.time)],
      [
        "resume: memory at most",
        megabytes(resume.peak),
        "read and parse alone",
        megabytes(plain.peak),
        times(resume.peak / plain.peak),
      ],
    ]),
  start: ({ start }) =>
    table([
      ["lesson", "tsx", ...(start.missing ? [] : ["Node alone"])],
      ...start.lessons.map(({ name, tsx, node }) => [name, ms(tsx), ...(node === undefined ? [] : [ms(node)])]),
    ]) + (start.missing ? `\n\nWithout tsx: not measured, since ${start.missing}.` : ""),
};

// #endregion

async function main(name = ""): Promise<void> {
  const part = PARTS[name];
  if (part && process.send) {
    process.send(await part((share) => process.send?.(share)));
    process.disconnect();
    return;
  }
  let shown = "";
  const speed = await measureSpeed((_, what) => {
    if (what !== shown) console.error(what);
    shown = what;
  });
  for (const table of Object.values(speedTables)) console.log(`${table(speed)}\n`);
  keep({ speed });
}

const script = process.argv[1] ?? "";
if (existsSync(script) && realpathSync(script) === realpathSync(FILE)) await main(process.argv[2]);
