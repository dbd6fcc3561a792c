/** The bench on small sessions: what it bills, what it counts as grounded, and what it says when it cannot go on. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import { transformSync } from "esbuild";
import { figuresOf, READ_PRICES } from "../bench/figures.ts";
import type { Call } from "../bench/replay.ts";
import { charts, tables } from "../bench/report.ts";
import { STRATEGIES, SWEEP, sourceOf, THRESHOLDS } from "../bench/strategies.ts";
import { TSX } from "./harness.ts";

const folder = mkdtempSync(join(tmpdir(), "bench-"));
after(() => rmSync(folder, { recursive: true }));

function bench(...args: string[]) {
  const script = fileURLToPath(new URL("../bench/run.ts", import.meta.url));
  return spawnSync(process.execPath, ["--import", TSX, script, ...args], { encoding: "utf8", cwd: folder });
}

function session(name: string, messages: Anthropic.MessageParam[]): string {
  const file = join(folder, name);
  writeFileSync(file, messages.map((message) => `${JSON.stringify(message)}\n`).join(""));
  return file;
}

let ids = 0;
/** A round: one call and what it returned. */
function round(name: string, input: object, content: string): Anthropic.MessageParam[] {
  const id = `toolu_${ids++}`;
  return [
    { role: "assistant", content: [{ type: "tool_use", id, name, input }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: id, content }] },
  ];
}
const say = (text: string): Anthropic.MessageParam => ({ role: "assistant", content: [{ type: "text", text }] });
const ask = (content: string): Anthropic.MessageParam => ({ role: "user", content });

/** The cells of a strategy's line in the table of that name. */
function line(output: string, table: string, strategy: string): string[] {
  const part = output.slice(output.indexOf(`${table}\n|`)).split("\n\n")[0] ?? "";
  const found = part.split("\n").find((each) => each.startsWith(`| ${strategy} `)) ?? "";
  return found.split("|").map((cell) => cell.trim());
}

describe("a strategy", () => {
  const s06 = readFileSync(new URL("../agents/s06_context_compact.ts", import.meta.url), "utf8");
  const swept = Object.values(SWEEP).map((make) => make(THRESHOLDS[0] ?? 0));
  for (const strategy of [...STRATEGIES, ...swept]) {
    test(`"${strategy.name}" is s06 with its own lines or variables`, () => {
      const source = sourceOf(s06, strategy);
      transformSync(source, { loader: "ts" });
      const isPlain = strategy.name === "two limits";
      assert.equal(source !== s06 || strategy.env !== undefined, !isPlain);
    });
  }

  test("whose line is gone from s06 is an error that names both", () => {
    const strategy = { name: "mine", patch: [["no such line", ""] satisfies [string, string]] };
    assert.throws(() => sourceOf(s06, strategy), /strategy "mine": its line occurs 0 times in s06: no such line/);
  });
});

describe("the bill", () => {
  const call: Call = {
    ...{ isSummary: false, isWide: false, context: 100, read: 60, written: 30, output: 7 },
    ...{ edits: 0, grounded: 0, again: 0 },
  };
  const costs = (...calls: Call[]) => figuresOf([{ session: "a", calls, rejected: [] }]).costs;

  test("is reads at their price, writes at 1.25 and the rest at 1", () => {
    assert.deepEqual(
      costs(call).map((cost) => cost.toFixed(4)),
      READ_PRICES.map((price) => (60 * price + 30 * 1.25 + 10).toFixed(4)),
    );
  });
  test("takes the output of summaries alone, at 5", () => {
    assert.equal((costs({ ...call, isSummary: true })[0] ?? 0) - (costs(call)[0] ?? 0), 35);
  });
  test("takes what has to be read again as written, or where there is no cache as input", () => {
    assert.equal((costs({ ...call, again: 40 })[0] ?? 0) - (costs(call)[0] ?? 0), 50);
    const without = { ...call, read: 0, written: 0 };
    assert.equal((costs({ ...without, again: 40 })[0] ?? 0) - (costs(without)[0] ?? 0), 40);
  });
});

describe("npm run bench", () => {
  const text = Array.from({ length: 900 }, (_, i) => `const line${i} = ${i};`).join("\n");
  const others = Array.from({ length: 12 }, (_, i) =>
    round("read_file", { path: `other${i}.ts` }, text.replaceAll("line", `other${i}_`)),
  ).flat();
  const edit = (name: string) => round("edit_file", { path: "a.ts", old_text: name, new_text: "x" }, "Edited a.ts");
  const file = session("work.jsonl", [
    ask("Look at a.ts and the others."),
    ...round("read_file", { path: "a.ts" }, text),
    ...others,
    say("I have seen them."),
    ask("Change line7."),
    ...edit("const line7 = 7;"),
    ...edit("never shown"),
    say("Done."),
  ]);
  const { stdout, stderr, status } = bench(file);

  test("replays every round once where nothing is forgotten, and the API takes all requests of all strategies", () => {
    assert.deepEqual([status, stderr], [0, ""]);
    assert.deepEqual(line(stdout, "tokens", "nothing").slice(5, 7), ["17", "0"]);
    for (const { name } of STRATEGIES) assert.equal(line(stdout, "tokens", name).at(6), "0", name);
  });

  test("counts as grounded the edits of a text that was shown and is still there", () => {
    assert.match(stdout, /\| work\.jsonl +\| +[\d,]+ \| +2 \| +17 \| +1 \|/);
    assert.equal(line(stdout, "strategies", "nothing").at(5), "100 %");
    assert.equal(line(stdout, "strategies", "the original").at(5), "0 %");
  });

  test("has layer 1 act for a new request under two limits, and never where nothing is forgotten", () => {
    const costs = (name: string) => line(stdout, "strategies", name).slice(2, 5).map(Number);
    assert.deepEqual(costs("nothing"), [1, 1, 1]);
    assert.ok((costs("the original")[1] ?? 0) > 1.5);
    assert.notDeepEqual(line(stdout, "tokens", "two limits").slice(2), line(stdout, "tokens", "nothing").slice(2));
  });

  test("takes another size of a token", () => {
    const finer = bench("--characters-per-token", "2", file);
    const written = (output: string) => Number(line(output, "tokens", "nothing").at(2)?.replace(/\D/g, ""));
    const ratio = written(finer.stdout) / written(stdout);
    assert.ok(ratio > 1.4 && ratio < 1.6, `${ratio}`);
  });

  test("says what is wrong with a flag or a path", () => {
    const wrong = bench("--summary", "many", file);
    assert.deepEqual([wrong.status, wrong.stderr], [1, '--summary must be a number above 0, not "many"\n']);
    const nowhere = bench(join(folder, "nowhere"));
    assert.equal(nowhere.status, 1);
    assert.match(nowhere.stderr, /nowhere/);
  });
});

test("the tables and charts are made of the results that are kept", () => {
  const results = JSON.parse(readFileSync(new URL("../bench/results.json", import.meta.url), "utf8"));
  for (const { name } of STRATEGIES) assert.match(tables.strategies?.(results) ?? "", new RegExp(`^\\| ${name} `, "m"));
  for (const [name, draw] of Object.entries(charts)) {
    const kept = readFileSync(new URL(`../docs/${name}`, import.meta.url), "utf8");
    assert.equal(kept, draw(results), `${name} is not drawn from bench/results.json; npm run bench draws it`);
  }
});
