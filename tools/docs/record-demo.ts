/**
 * Records tools/docs/runs/demo.jsonl, the transcript of `npm run demo`. The rehearsal model answers in no time, so the lines
 * get new times, 12 seconds apart. Run: npx tsx tools/docs/record-demo.ts && npm run docs:sync
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { codeHash } from "../lesson/hash.ts";
import { parseLine } from "../trace/formats.ts";

const START = Date.UTC(2026, 0, 5, 9);
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "demo-"));
execFileSync("npm", ["run", "demo", "--", folder], { cwd: ROOT, stdio: "inherit" });
const name = readdirSync(folder).find((each) => each.endsWith(".jsonl")) ?? "";
const lines = readFileSync(join(folder, name), "utf8").trim().split("\n");
rmSync(folder, { recursive: true });
const code = codeHash(readFileSync(join(ROOT, "agents/s06_context_compact.ts"), "utf8"));
const calls = new Map<number, number>(); // from the real time of a call to its new one
const timed = lines.map((line, i) => {
  const { state, ...entry } = Object(parseLine(line));
  const time = START + 12_000 * i;
  if (!calls.has(state.lastCall)) calls.set(state.lastCall, time);
  state.lastCall &&= calls.get(state.lastCall);
  state.file = ".transcripts/transcript_demo.jsonl";
  return JSON.stringify({ ...entry, time, state, ...(i === 0 && { code }) });
});
const demo = `${timed.join("\n")}\n`.replaceAll(name, "transcript_demo.jsonl");
writeFileSync(join(ROOT, "tools/docs/runs/demo.jsonl"), demo);
