/**
 * The sessions that tools/bench/record-sessions.ts records, on a copy of this repository. Nobody thinks here, so the edits are
 * simple; where and when they come is what counts.
 */
import type { Model } from "../offline/server.ts";

type Call = { name: string; input: Record<string, unknown> };
/** Yields the calls of a round, which run side by side, and is given their results. */
type Steps = Generator<Call[], void, string[]>;
/** The text of each file as far as the session has shown it. */
type Seen = Map<string, string>;
/** What the user asks, and the rounds it takes. */
type Request = [asks: string, ...work: (Call[] | ((seen: Seen) => Steps))[]];
export type Session = { name: string; requests: Request[] };

// --- the player ------------------------------------------------------------------------------------------------------

function* carryOut([, ...work]: Request, seen: Seen): Steps {
  for (const part of work) {
    if (typeof part === "function") yield* part(seen);
    else yield part;
  }
}

/** A model that plays a session from its first request to its last. */
export function play({ name, requests }: Session): Model {
  const seen: Seen = new Map();
  const waiting = [...requests];
  let [called, steps, calls] = [0, carryOut([""], seen), [] as Call[]];
  return ({ messages }) => {
    const blocks = [messages.at(-1)?.content ?? []].flat();
    const results = blocks.flatMap((block) =>
      typeof block === "object" && block.type === "tool_result" ? [String(block.content)] : [],
    );
    if (results.length === 0) steps = carryOut(waiting.shift() ?? [""], seen);
    for (const [i, result] of results.entries()) look(seen, calls[i], result);
    calls = steps.next(results).value ?? [];
    if (calls.length === 0) return { content: [{ type: "text", text: "Done, and nothing else was touched." }] };
    const uses = calls.map((call) => ({ type: "tool_use" as const, id: `toolu_${name}_${called++}`, ...call }));
    const thinking = `Next: ${calls.map((call) => `${call.name} ${call.input.path ?? ""}`).join(", ")}`;
    return { content: [{ type: "thinking", thinking }, ...uses] };
  };
}

/** Notes what a call that worked tells about a file. */
function look(seen: Seen, call: Call | undefined, result: string): void {
  const { path, content, old_text, new_text, offset } = Object(call?.input);
  const before = seen.get(path) ?? "";
  const text = result.replace(/\n\[\d+ more lines: .*\]$/, "");
  if (call?.name === "write_file") seen.set(path, content);
  if (result.startsWith("Edited")) seen.set(path, before.split(old_text).join(new_text));
  if (call?.name === "read_file" && !before.includes(text)) seen.set(path, offset ? `${before}\n${text}` : text);
}

// --- rounds ----------------------------------------------------------------------------------------------------------

const bash = (command: string): Call => ({ name: "bash", input: { command } });
const write = (path: string, content: string): Call => ({ name: "write_file", input: { path, content } });
const read = (path: string, offset?: number, limit?: number): Call => ({
  name: "read_file",
  input: { path, offset, limit },
});
/** The same part of several files. */
const parts = (paths: string[], offset: number, limit: number) => paths.map((path) => read(path, offset, limit));
/** A file from its first line on, `limit` lines a round. */
const inParts = (path: string, limit: number, rounds: number) =>
  Array.from({ length: rounds }, (_, i) => [read(path, 1 + i * limit, limit)]);
const around = (folders: string) => [
  bash("ls -p"),
  bash(`mkdir -p before && cp -r ${folders} before/ && wc -lc ${folders.replace(/\w+/g, "$&/*.ts")}`),
];
const differences = (folders: string) => [bash(`for f in ${folders}; do diff -r before/$f $f; done | head -c 30000`)];

/** What is looked at between edits. */
const checks = [
  (path: string) => bash(`diff before/${path} ${path} | head -80`),
  (path: string) => read(path, 1, 45),
  () => bash('grep -nE "^(describe|test)\\(" tests/*.ts | head -c 12000'),
  (path: string) => bash(`grep -nE '^(export )?(async )?function' ${path}`),
];

type Change = (line: string) => string;
const rename = (from: string, to: string): Change => {
  return (line) => line.replace(new RegExp(`\\b${from}\\b`, "g"), to);
};
/** A comment behind the brace that opens a function. */
const explain: Change = (line) =>
  line.replace(/^((?:export )?(?:async )?function\*? (\w+).*\{)$/, (_, head, name) => {
    return `${head} // in short: ${name.replace(/[A-Z]+/g, (capital: string) => ` ${capital.toLowerCase()}`)}`;
  });
const describe: Change = (line) => line.replace(/^((?:export )?const [a-z]\w* = .*=>.*)$/, "/** In one step. */\n$1");

type Manner = { each: number; reread?: number; slip?: number };

/** The lines from the first that is to be changed on, as many as make them unique. */
function placeOf(text: string, change: Change): string | undefined {
  const lines = text.split("\n");
  for (const [i, line] of lines.entries()) {
    if (change(line) === line) continue;
    for (let n = 1; n <= 5; n++) {
      const piece = lines.slice(i, i + n).join("\n");
      if (text.split(piece).length === 2) return piece;
    }
  }
}

/**
 * Changes `each` places of each file, one per round, as far as they were seen. Every `reread`-th is read again first; every
 * `slip`-th is tried from memory with wrong indentation, and read again then.
 */
const change = (paths: string[], by: Change, { each, reread = 0, slip = 0 }: Manner) =>
  function* (seen: Seen): Steps {
    let count = 0;
    for (const [path, n] of paths.flatMap((path) => Array.from({ length: each }, (_, n) => [path, n] as const))) {
      if (n === 0 && !seen.has(path)) yield [read(path)];
      const text = seen.get(path) ?? "";
      const old = placeOf(text, by);
      if (!old) continue;
      count++;
      const line = text.slice(0, text.indexOf(old)).split("\n").length;
      const near = read(path, Math.max(1, line - 40), 46 + 10 * (count % 4));
      // What an earlier request has shown is looked at again, most of the time.
      if (n === 0 && paths.indexOf(path) % 4 !== 3) yield [read(path, Math.max(1, line - 100), 250)];
      const edit = (old_text: string): Call => {
        const new_text = old_text.split("\n").map(by).join("\n");
        return { name: "edit_file", input: { path, old_text, new_text } };
      };
      if (reread && count % reread === 0) yield [near];
      if (slip && count % slip === 0) {
        yield [edit(old.replace(/^/gm, "\t"))];
        yield [near];
      }
      const [result = ""] = yield [edit(old)];
      if (!result.startsWith("Edited")) yield [read(path)]; // only a part was seen, and there is more like it
      if (count % 3 === 0) yield [checks[(count / 3) % checks.length]?.(path) ?? bash("ls")];
    }
  };

// --- the sessions ----------------------------------------------------------------------------------------------------

const LESSONS = ["s01_agent_loop", "s02_tool_use", "s03_todo_write", "s04_subagent", "s05_skill_loading"]
  .concat("s06_context_compact")
  .map((name) => `agents/${name}.ts`);
const SUITES = LESSONS.map((path) => path.replace("agents/", "tests/").replace(".ts", ".test.ts"));
const [S01 = "", S02 = "", , , , S06 = ""] = LESSONS;
const [, ...LATER] = LESSONS; // which have file tools
const NEWEST = LESSONS.slice(4);
const S06_SUITE = SUITES[5] ?? "";
const OFFLINE = ["offline/server.ts", "offline/rules.ts", "offline/model.ts", "offline/run.ts"];
const [SERVER = ""] = OFFLINE;
const SERVER_SUITE = "offline/server.test.ts";
const PARTS = ["loop", "compact", "layer2", "transcript", "todo", "files"].map((name) => `parts/${name}.ts`);
const cut = (path: string) =>
  bash(`mkdir -p parts && sed -n '/#region ${path.slice(6, -3)}$/,/#endregion$/p' ${S06} > ${path} && wc -lc ${path}`);
const list = (name: string, paths: string[]) => [
  write(name, `# Changed\n\n- ${paths.join("\n- ")}\n`),
  bash(`cat ${name}`),
];

export const SESSIONS: Session[] = [
  {
    name: "rename-names",
    requests: [
      ["Which names in the lessons are poor?", around("agents tests"), [read(S01)], parts(LATER, 40, 130)],
      ["Call options settings, in every lesson.", change(LESSONS, rename("options", "settings"), { each: 3, slip: 7 })],
      ["Say conversation, not messages.", change(LESSONS, rename("messages", "conversation"), { each: 2, reread: 3 })],
      ["Now the suites: what are their helpers called?", parts(SUITES, 1, 110), [read("tests/harness.ts")]],
      ["t should be context there.", change(SUITES.slice(1), rename("t", "context"), { each: 2, reread: 3, slip: 8 })],
      ["And error should be thrown.", change(SUITES, rename("error", "thrown"), { each: 1, reread: 2 })],
      ["I prefer params to settings, in s01 and s02.", change([S01, S02], rename("settings", "params"), { each: 3 })],
      ["Rename block to part in the last two.", change(NEWEST, rename("block", "part"), { each: 4, reread: 4 })],
      ["Show me all that changed, and write it down.", differences("agents tests"), list("CHANGES.md", LESSONS)],
    ],
  },
  {
    name: "explain-the-server",
    requests: [
      ["How does the offline server work?", around("offline tests"), ...inParts(SERVER, 190, 3)],
      ["A few words for each of its functions, please.", change([SERVER], explain, { each: 9, reread: 4, slip: 6 })],
      ["What do the model and the launcher do?", [read("offline/model.ts")], [read("offline/run.ts")]],
      ["The same for them.", change(OFFLINE.slice(1), explain, { each: 6, reread: 3 })],
      ["How is it tested?", ...inParts(SERVER_SUITE, 100, 4), [bash("grep -n 'test(' offline/*.test.ts")]],
      ["Its arrow functions in one step.", change([SERVER], describe, { each: 6, reread: 3, slip: 5 })],
      ["In the tests, journal should be log.", change([SERVER_SUITE], rename("journal", "log"), { each: 6 })],
      ["Call limit maximum.", change(OFFLINE, rename("limit", "maximum"), { each: 2, reread: 2 })],
      ["More words for the server.", change([SERVER], explain, { each: 6, reread: 5 })],
      ["What is different now?", differences("offline tests"), list("REVIEW.md", OFFLINE)],
    ],
  },
  {
    name: "review-everything",
    requests: [
      [
        "Get an overview of all sources.",
        around("agents offline tests"),
        parts([...LESSONS, ...SUITES, ...OFFLINE], 1, 60),
      ],
      [
        "What smells?",
        "any|as |catch {|process.exit|setTimeout|JSON.parse|delete |throw new Error|let |TODO"
          .split("|")
          .map((sign) => bash(`grep -nF -e '${sign}' agents/s06_context_compact.ts offline/*.ts | head -40`)),
      ],
      ["Look closer at the shell and the file tools.", parts(LESSONS, 90, 90), parts(LATER, 190, 90)],
      ["Their functions deserve a word.", change(LESSONS, explain, { each: 2, reread: 4, slip: 8 })],
      ["Name folder workspace in the suites.", change(SUITES, rename("folder", "workspace"), { each: 2, reread: 2 })],
      ["Review the tests of s06.", ...inParts(S06_SUITE, 160, 3)],
      [
        "Mend what you found.",
        change([S06_SUITE], describe, { each: 3 }),
        change([S06_SUITE], rename("text", "words"), { each: 6, slip: 4 }),
      ],
      ["The file tools say path; say file.", change(LATER, rename("path", "file_path"), { each: 2, reread: 5 })],
      [
        "Once more, file by file.",
        LESSONS.map((path) => bash(`diff before/${path} ${path}`)),
        list("REVIEW.md", LESSONS),
      ],
    ],
  },
  {
    name: "split-a-lesson",
    requests: [
      [
        "s06 is long. How would you cut it?",
        around("agents tests"),
        [bash(`grep -n region ${S06}`)],
        ...inParts(S06, 170, 5),
      ],
      [
        "What do the parts use of each other?",
        ["THRESHOLD", "blocksOf", "estimateTokens", "replaceHistory", "check", "add"].map((name) =>
          bash(`grep -nw ${name} ${S06}`),
        ),
      ],
      ["Make the files, in parts/.", ...PARTS.map((path) => [cut(path)]), PARTS.map((path) => read(path))],
      ["Explain their functions.", change(PARTS, explain, { each: 3, reread: 4, slip: 9 })],
      ["And those of the lesson.", change([S06], explain, { each: 8, reread: 5, slip: 8 })],
      ["Which tests belong to which part?", ...inParts(S06_SUITE, 160, 3), [read("tests/harness.ts")]],
      ["Say turn, not options, in the parts.", change(PARTS, rename("options", "turn"), { each: 2, reread: 3 })],
      ["Name the helpers of the harness.", change(["tests/harness.ts"], describe, { each: 6, reread: 3 })],
      ["In the lesson, text should be words.", change([S06], rename("text", "words"), { each: 6, reread: 4 })],
      [
        "Show me the sizes and all differences.",
        [bash("wc -lc agents/*.ts parts/*.ts")],
        differences("agents tests"),
        list("parts/README.md", PARTS),
      ],
    ],
  },
];
