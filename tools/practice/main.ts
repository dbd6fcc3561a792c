/** npm run practice -- s03 */
import { once } from "node:events";
import fs from "node:fs";
import { basename } from "node:path";
import { inspect, styleText } from "node:util";
import { type Code, readLessons } from "../lesson/source.ts";
import { check, type Result } from "./check.ts";
import { changedBetween, skeletonOf, stepsOf } from "./skeleton.ts";

const lessons = readLessons(".");
const lesson = lessons.get(process.argv[2] ?? "") ?? leave(`Name a lesson, ${[...lessons.keys()].join(", ")}`);
const file = `practice/${basename(lesson.file)}`;
const greens = new Map<string, Code>(); // the reader's code when the tests of a function last passed
let hint = "";

function leave(why: string): never {
  console.error(why);
  process.exit(1);
}

/** Runs the tests again when the file is saved. The key h shows a hint, and others run the tests as well. */
async function watch(quitting: AbortController): Promise<void> {
  let again = new AbortController();
  if (process.stdin.isTTY) process.stdin.setRawMode(true);
  process.stdin.on("data", (keys) => {
    if (`${keys}` === "h") return console.log(hint);
    if (/[\x03\x04]/.test(`${keys}`)) quitting.abort(); // Ctrl-C, Ctrl-D
    again.abort();
  });
  fs.watchFile(file, { interval: 100 }, () => again.abort());
  while (!quitting.signal.aborted) {
    again = new AbortController();
    const signal = AbortSignal.any([again.signal, quitting.signal]);
    console.log("running…");
    await show(signal);
    if (!signal.aborted)
      console.log(styleText("dim", `Write in ${file}. Saving or a key runs the tests; h shows a hint.`));
    if (!signal.aborted) await once(signal, "abort");
  }
}

/** Runs the tests and shows the result, unless aborted. */
async function show(signal: AbortSignal): Promise<void> {
  const result = await check(lesson, signal);
  if (signal.aborted) return;
  const { code = lesson, step, isGreen, green, passed, typeErrors, failure } = result;
  const { length } = stepsOf(lesson);
  const done = step ? step.number - 1 : length;
  const bar = `${"█".repeat(done * 4).padEnd(length * 4, "░")} ${done} of ${length} steps`;
  const blocks = [[`${lesson.header[0]}   ${bar}   tests green: ${passed}`]];
  if (failure) blocks.push([`✗ ${failure.test}\n`, ...explain(failure)]);
  if (typeErrors.length > 0) blocks.push(["✗ syntax and types\n", ...typeErrors.slice(0, 5)]);
  const next = [...lessons.keys()].find((name) => name > lesson.name) ?? "";
  const goOn = `Run it: npm run offline -- ${file}\n  ${next && `Go on: npm run practice -- ${next}`}`;
  blocks.push(isGreen ? [`All green. ${goOn}`] : adviceFor(result));
  if (process.stdout.isTTY) console.clear();
  console.log(`${blocks.map((lines) => lines.join("\n  ")).join("\n\n")}\n`);
  hint = step ? `A hint: ${step.hint}\n` : "There is no hint.\n";
  for (const name of green) greens.set(name, code);
  process.exitCode = isGreen ? 0 : 1;
}

/** Says what to write or look at. */
function adviceFor({ code, step, unwritten, ahead, typeErrors, failure }: Result): string[] {
  const place = failure?.name === "" ? (thrownAt(failure.problem.stack) ?? file) : typeErrors[0]?.split(": ")[0];
  if (!code || (place && !failure?.name)) return [`→ look at ${place ?? file}`];
  const lineOf = (name: string) => {
    const { from = 0, body = { from: from + 1 } } = code.parts.get(name) ?? {};
    const advice = unwritten.includes(name) ? "write" : "look at";
    return `${advice} ${name} ${from ? `(line ${body.from - 1})` : "(not in the file)"}`;
  };
  const green = failure && greens.get(failure.name);
  const changed = green ? changedBetween(green, code) : [];
  const names = changed.length > 0 ? changed : (step?.functions ?? [`${failure?.name}`]);
  const at = stepsOf(lesson).find(({ functions }) => functions.includes(`${names[0]}`));
  const lines = [`→ ${at ? `step ${at.number}: ` : ""}${names.map(lineOf).join(", ")}`];
  if (changed.length > 0) lines.push("This test was green before you changed that.");
  const title = new RegExp(`^### (${at?.section}\\. .*)`, "m").exec(fs.readFileSync(lesson.page, "utf8"))?.[1];
  lines.push(`${file}; the page: ${lesson.page}${title ? `, "${title}"` : ""}`);
  return [...lines, ...ahead.map((name) => `· ${name}`)];
}

/** Says in a few lines what went wrong. */
function explain({ problem, printed }: NonNullable<Result["failure"]>): string[] {
  const { message, stack = "", operator = "", expected, actual } = problem;
  const hasSides = ["strictEqual", "deepStrictEqual", "match"].includes(operator);
  const [said = "", ending] = message.split("\n\nthe turn ended with: ");
  const most = !hasSides ? 6 : /^(Expected values|The input) /.test(said) ? 0 : 1; // without Node's own comparison
  const lines = said.split("\n", most).filter(Boolean);
  if (hasSides) lines.push(...compare(expected, actual));
  if (ending) lines.push(`the turn ended with: ${ending}`);
  const [, suite = "", at] = /.*(tests\/s\d\d\w+\.test\.ts):(\d+)/s.exec(stack) ?? []; // the last, since helpers come before it
  if (at) lines.push(`${suite}:${at}   ${fs.readFileSync(suite, "utf8").split("\n")[Number(at) - 1]?.trim()}`);
  if (thrownAt(stack)) lines.push(`thrown at ${thrownAt(stack)}`);
  if (printed && printed !== stack) lines.push("printed:", ...printed.trimEnd().split("\n").slice(-10));
  return lines.map((line) => (line.length > 300 ? `${line.slice(0, 300)} …` : line));
}

const thrownAt = (stack = "") => /practice\/\.s\d\d\w*\.ts:\d+/.exec(stack)?.[0].replace(".", ""); // the reader's line

/** Both sides of an assertion, from shortly before the first difference. */
function compare(...sides: unknown[]): string[] {
  const [wanted = "", came = ""] = sides.map((side) => inspect(side, { depth: 8 }).replace(/\s*\n\s*/g, " "));
  const difference = wanted.split("").findIndex((sign, i) => sign !== came[i]);
  const from = Math.max(0, (difference < 0 ? wanted.length : difference) - 40);
  const rest = (text: string) => (from > 0 ? "… " : "") + text.slice(from, from + 200);
  return [`wanted  ${rest(wanted)}`, `came    ${rest(came)}`];
}

fs.mkdirSync("practice", { recursive: true });
const compilerOptions = { noUnusedLocals: false, noUncheckedIndexedAccess: false, erasableSyntaxOnly: false };
const settings = { extends: "../tsconfig.json", compilerOptions, include: ["*.ts"], exclude: [] };
fs.writeFileSync("practice/tsconfig.json", JSON.stringify(settings));
if (!fs.existsSync(file)) fs.writeFileSync(file, skeletonOf(lesson), { flag: "wx" });
const quitting = new AbortController(); // on Ctrl-C, or when the terminal is closed
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => quitting.abort());
await (process.stdout.isTTY ? watch(quitting) : show(quitting.signal));
if (quitting.signal.aborted) process.exit(130);
