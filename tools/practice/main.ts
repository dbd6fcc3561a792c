/** npm run practice -- s03 */
import { once } from "node:events";
import fs from "node:fs";
import { inspect, styleText } from "node:util";
import { type Code, readLessons } from "../lesson/source.ts";
import { check, type Failure, type Result } from "./check.ts";
import { changedBetween, skeletonOf, stepsOf } from "./skeleton.ts";

const lessons = readLessons(".");
const lesson = lessons.get(process.argv[2] ?? "") ?? showUsage();
const file = lesson.file.replace("agents", "practice");
const steps = stepsOf(lesson);
const greens = new Map<string, Code>(); // the reader's code when the tests of a function last passed
let hint = "";

function showUsage(): never {
  console.log(`npm run practice -- LESSON   (${[...lessons.keys()].join(", ")})
Makes a file in practice/, once, without the functions that the lesson adds. Runs the lesson's tests when you save it.`);
  process.exit(process.argv[2] === "--help" ? 0 : 1);
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
    if (signal.aborted) continue;
    console.log(styleText("dim", `Saving ${file} runs the tests. h: a hint. Ctrl-C: quit.`));
    await once(signal, "abort");
  }
}

/** Runs the tests and shows the result, unless aborted. */
async function show(signal: AbortSignal): Promise<void> {
  const result = await check(lesson, signal);
  if (signal.aborted) return;
  const { code = lesson, step, isGreen, passed } = result;
  const done = steps.slice(0, step ? step.number - 1 : steps.length);
  const green = `${done.length} of ${steps.length} steps are green, ${passed} tests passed`;
  const blocks = [[`${lesson.header[0]}   ${green}`], problemIn(result), adviceFor(result)];
  if (process.stdout.isTTY) console.clear();
  for (const lines of blocks) if (lines[0]) console.log(wrapped(`${lines.join("\n  ")}\n`));
  hint = step ? wrapped(`A hint: ${step.hint}\n`) : "There is no hint.\n";
  for (const name of done.flatMap(({ functions }) => functions)) greens.set(name, code);
  process.exitCode = isGreen ? 0 : 1;
}

const wrapped = (text: string) => text.replace(/(.{60,76}) (?=\S)/g, "$1\n  ");

/** What isn't right, if anything. The compiler comes first, since what it reports may be why a test fails. */
function problemIn({ typeErrors, failure }: Result): string[] {
  if (typeErrors.length > 0) return ["✗ syntax and types\n", ...typeErrors.slice(0, 5)];
  return failure ? [`✗ ${failure.test}\n`, ...explain(failure)] : [];
}

/** Says what to write or look at: a line, or the functions of a step. */
function adviceFor(result: Result): string[] {
  const { isGreen, code, ahead, typeErrors, failure } = result;
  if (isGreen) return [`All green. Compare it with ${lesson.file}, or run it: npm run offline -- ${file}`];
  if (typeErrors[0]) return [`→ look at ${typeErrors[0].split(": ")[0]}`];
  if (!code || failure?.name === "") return [`→ look at ${thrownAt(failure?.problem.stack) ?? file}`];
  const names = functionsIn(result);
  const places = names.map((name) => {
    const line = code.parts.get(name)?.body?.from;
    return `${name} (${line ? `line ${line - 1}` : "not in the file"})`;
  });
  const { number, section = "" } = steps.find(({ functions }) => functions.includes(`${names[0]}`)) ?? {};
  const lines = [`→ ${number ? `step ${number}: ` : ""}${failure ? "look at" : "write"} ${places.join(", ")}`];
  for (const page of lesson.pages) if (titleIn(page, section)) lines.push(`${page}, "${titleIn(page, section)}"`);
  return failure ? lines : [...lines, ...ahead.map((name) => `· ${name}`)];
}

/** What isn't written yet, or was changed since the tests of that function were green, or else all functions of the step. */
function functionsIn({ code, step, unwritten, failure }: Result): string[] {
  const functions = step?.functions ?? [`${failure?.name}`];
  if (!failure) return functions.filter((name) => unwritten.includes(name));
  const green = greens.get(failure.name);
  const changed = green && code ? changedBetween(green, code) : [];
  return changed.length > 0 ? changed.slice(0, 3) : functions;
}

const titleIn = (page: string, section: string) =>
  new RegExp(`(?<=^##+ )${section}\\. .*`, "m").exec(fs.readFileSync(page, "utf8"))?.[0];

/** Says in a few lines what went wrong. */
function explain({ problem, printed }: Failure): string[] {
  const { message, stack = "", operator = "", expected, actual } = problem;
  const [said = "", ending] = message.split("\n\nthe turn ended with: ");
  const sides = /^(strictEqual|deepStrictEqual|match)$/.test(operator) ? compare(expected, actual) : [];
  const words = /^(Expected values|The input) /.test(said) ? "" : said; // not Node's, which compares as well
  const lines = [...words.split("\n", sides.length > 0 ? 1 : 6).filter(Boolean), ...sides];
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
const settings = JSON.stringify({ extends: "../tsconfig.json", compilerOptions, include: ["*.ts"], exclude: [] });
fs.writeFileSync("practice/tsconfig.json", settings);
if (!fs.existsSync(file)) fs.writeFileSync(file, skeletonOf(lesson), { flag: "wx" });
const quitting = new AbortController(); // on Ctrl-C, or when the terminal is closed
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => quitting.abort());
await (process.stdout.isTTY ? watch(quitting) : show(quitting.signal));
if (quitting.signal.aborted) process.exit(130);
