/** Runs the suites of a lesson, whole or in part, in copies of the project in which the lesson can be changed. */
import { spawn } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { build } from "esbuild";
import { z } from "zod";
import { apply, type Change, stretchesOf } from "./operators.ts";

/** Suites beside a lesson's own, tests/sNN_*.test.ts, that run on several lessons. None that compares their texts. */
const SHARED = ["faults", "crashes", "escapes"];

const ROOT = process.cwd();
const SCRATCH = realpathSync(mkdtempSync(join(tmpdir(), "mutants-")));
chmodSync(SCRATCH, 0o711); // a test goes on as another user, who takes notes, too
const WATCH = import.meta.resolve("./watch.ts");
export const LESSONS = readdirSync(join(ROOT, "agents"))
  .map((name) => basename(name, ".ts"))
  .sort();
const sources = new Map(LESSONS.map((name) => [name, readFileSync(join(ROOT, "agents", `${name}.ts`), "utf8")]));
/** A lesson as it was when this process began. */
export const sourceOf = (lesson: string) => sources.get(lesson) ?? "";
export const linesIn = (file: string) =>
  existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : [];

export type Suite = {
  file: string;
  /** What a whole run takes, and what each test takes, in milliseconds; several tests may run side by side. */
  ms: number;
  tests: Map<string, number>;
  /** Tests that are not to run. */
  others: string[];
  /** The tests that run the code in which a change is. */
  reaching: (change: Change) => string[];
};
const Ended = z.object({ name: z.string(), ms: z.number(), isSuite: z.boolean(), failed: z.boolean() });

/**
 * Puts each package that lessons import into one file, since loading its many files is most of what a run takes; the
 * others stay where they are.
 */
export async function preparePackages(): Promise<void> {
  const imports = LESSONS.flatMap((lesson) => [
    ...sourceOf(lesson).matchAll(/^(?:import|\}) .*from "(?!node:)([^"]+)"/gm),
  ]);
  const names = new Set(imports.map(([, name = ""]) => name));
  const packages = join(SCRATCH, "node_modules");
  mkdirSync(packages);
  for (const folder of readdirSync(join(ROOT, "node_modules")))
    if (![...names].some((name) => name.split("/")[0] === folder))
      symlinkSync(join(ROOT, "node_modules", folder), join(packages, folder));
  for (const name of names) {
    const contents = `export { ${Object.keys(await import(name))} } from "${name}"`;
    const require = 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);';
    const outfile = join(packages, name, "index.mjs");
    const stdin = { contents, resolveDir: ROOT };
    await build({ stdin, outfile, bundle: true, platform: "node", format: "esm", banner: { js: require } });
    writeFileSync(join(packages, name, "package.json"), JSON.stringify({ name, exports: "./index.mjs" }));
  }
}

/** A copy of the project, with a temporary folder of its own, until this process ends. */
export class Copy {
  readonly #home = mkdtempSync(join(SCRATCH, "copy-"));

  constructor() {
    chmodSync(this.#home, 0o711);
    const left = [".env", ".git", ".mutants", ".offline", ".transcripts", "coverage", "node_modules"].map((name) =>
      join(ROOT, name),
    );
    cpSync(ROOT, join(this.#home, "project"), { recursive: true, filter: (path) => !left.includes(path) });
    symlinkSync(join(SCRATCH, "node_modules"), join(this.#home, "project/node_modules"));
    mkdirSync(join(this.#home, "tmp"));
  }

  write(lesson: string, source: string): void {
    writeFileSync(join(this.#home, "project/agents", `${lesson}.ts`), source);
  }

  /** Runs a suite, or some tests of it, to the end or until one fails. @param limit ms */
  async run(suite: string, limit: number, tests: string[] = [], stop = true) {
    const report = join(this.#home, "report");
    rmSync(report, { force: true });
    const { NODE_TEST_CONTEXT: _, NODE_V8_COVERAGE: __, ...env } = process.env;
    const reporting = [
      "--import",
      "tsx",
      "--import",
      WATCH,
      "--test-reporter",
      WATCH,
      "--test-reporter-destination",
      "stdout",
    ];
    const patterns = tests.map((name) => `--test-name-pattern=/${name.replace(/[^\w ]/g, "\\$&")}$/`);
    const child = spawn(process.execPath, [...reporting, ...patterns, suite], {
      cwd: join(this.#home, "project"),
      env: {
        CARRIED: "off",
        ...env,
        TMPDIR: join(this.#home, "tmp"),
        MUTANTS_COPY: this.#home,
        MUTANTS_REPORT: report,
        MUTANTS_STOP: stop ? "on" : "off",
      },
      stdio: ["ignore", "ignore", "pipe"],
      detached: true,
    });
    let errors = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      errors += text;
    });
    let timedOut = false;
    const killGroup = () => {
      try {
        if (child.pid) process.kill(-child.pid, "SIGKILL");
      } catch {} // nobody is left in it
    };
    const timer = setTimeout(() => {
      timedOut = true;
      killGroup();
    }, limit);
    const code = await new Promise((resolve) => child.on("exit", resolve));
    clearTimeout(timer);
    killGroup();
    this.sweep();
    const ended = linesIn(report).map((line) => Ended.parse(JSON.parse(line)));
    return { passed: code === 0, timedOut, failed: ended.find((each) => each.failed)?.name, ended, errors };
  }

  /** Removes what a run left behind: on Linux also processes in other groups, known by the mark in their environment. */
  sweep(): void {
    for (const pid of existsSync("/proc") ? readdirSync("/proc").filter((name) => /^\d+$/.test(name)) : []) {
      try {
        if (readFileSync(`/proc/${pid}/environ`, "utf8").includes(`MUTANTS_COPY=${this.#home}\0`))
          process.kill(Number(pid), "SIGKILL");
      } catch {} // it has ended, or is not ours to look at
    }
    for (const name of readdirSync(join(this.#home, "tmp")))
      if (!name.startsWith("tsx")) rmSync(join(this.#home, "tmp", name), { recursive: true, force: true }); // tsx keeps its cache
  }

  /** Runs a lesson's suites with nothing changed, and looks which tests reach which stretches of it. @throws if one fails */
  async measure(lesson: string): Promise<Suite[]> {
    const source = sourceOf(lesson);
    const stretches = stretchesOf(source);
    const notesFile = join(this.#home, "notes");
    const noter = `
import { appendFileSync as __append } from "node:fs";
function __note(stretch) {
  const note = \`[\${process.env.MUTANTS_RUNNING ?? "[]"},\${stretch}]\\n\`;
  __note.seen ??= new Set();
  if (!__note.seen.has(note)) __append(${JSON.stringify(notesFile)}, note);
  __note.seen.add(note);
}`;
    const changes = stretches.flatMap(({ calling }, i) => calling(`__note(${i})`));
    const noting = apply(source, changes) + noter;
    const files = readdirSync(join(ROOT, "tests")).filter(
      (name) => name.startsWith(lesson.slice(0, 4)) && name.endsWith(".test.ts"),
    );
    const shared = SHARED.map((name) => `${name}.test.ts`).filter((name) => existsSync(join(ROOT, "tests", name)));
    const suites: Suite[] = [];
    for (const file of [...files, ...shared].map((name) => join("tests", name))) {
      writeFileSync(notesFile, "");
      chmodSync(notesFile, 0o666);
      this.write(lesson, noting);
      const began = Date.now();
      const { passed, ended, errors } = await this.run(file, 600_000, [], false);
      const ms = Date.now() - began;
      const notes = linesIn(notesFile);
      // A test that fails because notes are taken looks at the lesson's text, which says nothing about a change of it.
      const others = ended.filter(({ failed, isSuite }) => failed && !isSuite).map(({ name }) => name);
      this.write(lesson, source);
      if (others.length > 0 ? !(await this.run(file, 600_000, others)).passed : !passed)
        throw new Error(`${file} fails with nothing changed: ${others.join(", ") || errors}`);
      const reached = new Map<number, Set<string>>();
      for (const note of notes) {
        const [running, stretch] = z.tuple([z.array(z.string()), z.number()]).parse(JSON.parse(note));
        // What runs before or between tests may concern each of them.
        reached.set(stretch, new Set([...(reached.get(stretch) ?? []), ...(running.length > 0 ? running : ["*"])]));
      }
      const tests = new Map<string, number>();
      for (const each of ended) if (!each.isSuite && !others.includes(each.name)) tests.set(each.name, each.ms);
      const reaching = ({ start, end }: Change) => {
        const stretch = stretches.findLastIndex((each) => each.start <= start && each.end >= end);
        const names = stretch < 0 ? new Set("*") : reached.get(stretch);
        return [...tests.keys()].filter((name) => names?.has("*") || names?.has(name));
      };
      suites.push({ file, ms, tests, others, reaching });
    }
    return suites;
  }
}

const copies: Copy[] = [];
export function makeCopy(): Copy {
  const copy = new Copy();
  copies.push(copy);
  return copy;
}
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
process.on("exit", () => {
  for (const copy of copies) copy.sweep();
  rmSync(SCRATCH, { recursive: true, force: true });
});
