/** The screen after a run. */
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { styleText } from "node:util";
import { type Lesson, parseCode } from "../lesson/source.ts";
import type { Problem } from "./child.ts";
import type { Progress } from "./grade.ts";
import { changedBetween, skeletonOf, stepsOf } from "./skeleton.ts";

export function draw(lesson: Lesson, progress: Progress, seconds: number, next?: string): string {
  const { state, code, failure, typeErrors, ranAll } = progress;
  const { length } = stepsOf(lesson);
  const done = ranAll ? length : progress.stepsDone;
  const bar = "█".repeat(done * 4).padEnd(length * 4, "░");
  const title = `${lesson.header[0]}   ${bar} ${done} of ${length} steps   ${state}   ${seconds.toFixed(1)} s\n\n`;
  const goOn = next ? `Next: npm run practice -- ${next}` : "That was the last lesson.";
  const run = `Run it, without a key: npm run offline -- practice/${basename(lesson.file)}`;
  if (state === "green" && !ranAll) return `${title}Each step is green. A key runs all tests of the program.\n`;
  if (state === "green") return `${title}All green. --solution shows how the lesson does it.\n${run}\n${goOn}\n`;
  const help = styleText("dim", `npm run practice -- ${lesson.name} --solution or --reset`);
  const blocks = [[`→ ${adviceFor(lesson, progress).join("\n  ")}`, help]];
  if (typeErrors.length > 0) blocks.unshift([`✗ its ${code ? "types" : "syntax"}\n`, ...typeErrors.slice(0, 5)]);
  if (failure) blocks.unshift([`✗ ${failure.test}\n`, ...explain(failure.problem)]);
  return `${title}${blocks.map((lines) => lines.join("\n  ")).join("\n\n")}\n`;
}

/** Says what to write or look at, and what has changed since it was green. */
function adviceFor(lesson: Lesson, progress: Progress): string[] {
  const { state, code, failure, typeErrors, greenTexts, ranAll } = progress;
  const steps = stepsOf(lesson);
  const current = steps.find(({ name }) => name === failure?.step);
  if (failure && !current)
    return ["each step is green. Do they fit together? Was the machine busy? A key tries again."];
  const place = (failure && thrownAt(failure.problem)) ?? typeErrors[0]?.split(": ")[0];
  const isLost = state === "did not load" && place; // the place says more than the test
  if (!code || !current || isLost) return [`look at ${place}`];
  const lineOf = (name: string) => {
    const { from = 0, body = { from: from + 1 } } = code.parts.get(name) ?? {};
    return from ? `${name} (line ${body.from - 1})` : `${name} (not in the file)`;
  };
  const written = changedBetween(parseCode(skeletonOf(lesson)), code);
  const what = current.functions.map((name) => `${written.includes(name) ? "look at" : "write"} ${lineOf(name)}`);
  const lines = [
    `step ${steps.indexOf(current) + 1} of ${steps.length}: ${what.join(", ")}; the other steps are ${ranAll || failure?.isOwn ? "yours" : "the lesson's here"}`,
    `practice/${basename(lesson.file)}; the page: ${lesson.page}, "${current.page.replaceAll("`", "")}"`,
  ];
  const toWrite = steps.flatMap(({ functions }) => functions);
  const given = written.filter((name) => !toWrite.some((each) => each === name || each.startsWith(`${name}.`)));
  const others = given.length > 3 ? ` and ${given.length - 3} more` : "";
  if (given.length > 0) lines.unshift(`not as it was given: ${given.slice(0, 3).map(lineOf).join(", ")}${others}`);
  const before = parseCode(greenTexts[current.name] ?? "");
  const changed = changedBetween(before, code).filter((name) => [...current.functions, ...given].includes(name));
  if (changed.length > 0) lines.push(`it was green; since then you changed ${changed.map(lineOf).join(", ")}`);
  return lines;
}

/** Says in a few lines what went wrong. */
function explain(problem: Problem): string[] {
  const { message, stack, wanted, came, printed = "" } = problem;
  const api = /\d{3} \{"type":"error".*?"message":"((?:[^"\\]|\\.)*)".*/;
  const lines = message.split("\n").filter(Boolean).slice(0, 6);
  if (wanted && came && !message.includes("write me: ")) lines.push(...compare(wanted, came));
  const [, suite = "", at] = /.*(tests\/s\d\d\w+\.test\.ts):(\d+)/s.exec(stack) ?? []; // the last one, since helpers come before it
  const code = at && readFileSync(suite, "utf8").split("\n")[Number(at) - 1]?.trim();
  if (code) lines.push(`${suite}:${at}   ${code}`);
  const thrown = thrownAt(problem);
  if (thrown) lines.push(`thrown at ${thrown}`);
  if (printed) lines.push("printed by console.log:", ...printed.trimEnd().split("\n").slice(0, 10));
  return lines.map((line) => excerpt(escaped(line).replace(api, "the API says: $1")));
}

const thrownAt = ({ stack }: Problem) => /practice\/s\d\d\w*\.ts:\d+/.exec(stack)?.[0];
/** A line whose control characters can be seen. */
const escaped = (line: string) =>
  line.replace(/[\p{Cc}\p{Cf}]/gu, (sign) => `\\u{${sign.codePointAt(0)?.toString(16)}}`);
const excerpt = (line: string, from = 0) =>
  (from > 0 ? "… " : "") + line.slice(from, from + 300) + (line.length > from + 300 ? " …" : "");

/** The lines that differ, at most three of each side. The first ones start shortly before the difference. */
function compare(wanted: string, came: string): string[] {
  const [left, right] = [linesOf(wanted), linesOf(came)];
  const sides = [left.filter((line, i) => line !== right[i]), right.filter((line, i) => line !== left[i])];
  const [one = "(nothing)", other = "(nothing)"] = sides.map(([first]) => first);
  let same = 0;
  while (same < one.length && one[same] === other[same]) same++;
  const from = Math.max(0, same - 100);
  return [one, other].flatMap((first, i) => {
    const lines = [excerpt(first, from), ...(sides[i]?.slice(1, 3) ?? [])];
    return lines.map((line) => (i === 0 ? `wanted  ${line}` : `came    ${line}`));
  });
}

/** The lines of a value, in which repetitions are counted, as in "0 × 300". */
const linesOf = (value: string) =>
  value.replace(/(.{1,40}?)\1{9,}/g, (all, unit) => `${unit} × ${all.length / unit.length}`).split("\n");
