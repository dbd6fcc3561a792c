/**
 * The sessions that bench/record.ts records: what a person asks and what is done about it, on a copy of this repository.
 * A model plays one as the rehearsal model does: what to do next follows from the messages alone, and an edit replaces
 * text that was read earlier. Nobody thinks here, so the edits are simple; where and when they come is what counts.
 */
import type { Model } from "../offline/server.ts";

type Call = { name: string; input: Record<string, unknown> };
/** What is thought and said before some calls, which run side by side. */
type Round = { note: string; text?: string; calls: Call[] };
/** Yields rounds, is given the results of each, and returns the answer to the request. */
type Work = Generator<Round, string, string[]>;
type Steps = Generator<Round, void, string[]>;
/** The text of each file as far as the messages show it. */
type Seen = Map<string, string>;
export type Session = { name: string; requests: { asks: string; work: (seen: Seen) => Work }[] };

// --- the player -----------------------------------------------------------------------------------------------------

/** A model that plays a session: it carries out each request anew up to the last results, and says what comes next. */
export const play =
  ({ name, requests }: Session): Model =>
  ({ messages }) => {
    const seen: Seen = new Map();
    let [asked, called] = [0, 0];
    let work: Work | undefined;
    let next: IteratorResult<Round, string> | undefined;
    let round: Round = { note: "", calls: [] };
    for (const { role, content } of messages) {
      if (role !== "user") continue;
      const blocks = typeof content === "string" ? [] : content;
      const results = blocks.flatMap((block) => (block.type === "tool_result" ? [String(block.content)] : []));
      if (results.length === 0) {
        work = requests[asked++]?.work(seen);
        next = work?.next([]);
      } else {
        called += results.length;
        for (const [i, call] of round.calls.entries()) look(seen, call, results[i] ?? "");
        next = work?.next(results);
      }
      if (next && !next.done) round = next.value;
    }
    if (!next) throw new Error(`session ${name} has no request ${asked}`);
    if (next.done) return { content: [{ type: "text", text: next.value }] };
    const { note, text, calls } = next.value;
    return {
      content: [
        { type: "thinking", thinking: note },
        ...(text ? [{ type: "text" as const, text }] : []),
        ...calls.map((call, i) => ({ type: "tool_use" as const, id: `toolu_${name}_${called + i}`, ...call })),
      ],
    };
  };

/** Notes what a call that worked tells about a file. */
function look(seen: Seen, { name, input }: Call, result: string): void {
  const path = String(input.path);
  const before = seen.get(path) ?? "";
  if (name === "write_file") seen.set(path, String(input.content));
  if (name === "edit_file" && result.startsWith("Edited"))
    seen.set(
      path,
      before.replace(String(input.old_text), () => String(input.new_text)),
    );
  if (name !== "read_file" || result.startsWith("read_file: ")) return;
  const text = result.replace(/\n\[\d+ more lines; .*\]$/, "");
  const isWhole = input.offset === undefined && input.limit === undefined;
  if (isWhole || !before.includes(text)) seen.set(path, isWhole ? text : `${before}\n${text}`);
}

// --- what is done again and again -----------------------------------------------------------------------------------

const bash = (command: string): Call => ({ name: "bash", input: { command } });
const read = (path: string, offset?: number, limit?: number): Call => ({
  name: "read_file",
  input: { path, offset, limit },
});
const write = (path: string, content: string): Call => ({ name: "write_file", input: { path, content } });
const todo = (texts: string[], done: number): Call => ({
  name: "todo",
  input: {
    items: texts.map((text, i) => {
      return { text, status: i < done ? "completed" : i === done ? "in_progress" : "pending" };
    }),
  },
});

/** What is to be changed in a file: each place that fits, as far as it has been read. */
type Change = { path: string; pattern: RegExp; by: (text: string) => string };
type Manner = {
  /** Every how many edits the place is read again first; 0 for never. */
  reread: number;
  /** Every how many edits the text comes from memory, with wrong indentation, so that it has to be read again. */
  slip?: number;
  /** At most so many edits of each file. */
  each?: number;
};

/** The lines around a match, as many as make them unique. */
function placeOf(text: string, { pattern, by }: Change): string | undefined {
  const lines = text.split("\n");
  for (const [i, line] of lines.entries()) {
    if (!pattern.test(line) || by(line) === line) continue;
    for (let n = 1; n <= 5; n++) {
      const piece = lines.slice(i, i + n).join("\n");
      if (text.split(piece).length === 2) return piece;
    }
  }
}

const lineOf = (text: string, piece: string) => text.slice(0, text.indexOf(piece)).split("\n").length;

/** What is looked at between edits: what changed, how long things are, and what stands elsewhere. */
const checks = [
  (path: string) => bash(`diff before/${path} ${path} | head -80`),
  (path: string) => read(path, 1, 45),
  () => bash("wc -l agents/*.ts offline/*.ts tests/*.ts"),
  () => bash('grep -nE "^(describe|test)\\(" tests/*.ts | head -c 12000'),
  (path: string) => bash(`grep -nE '^(export )?(async )?function' ${path}; grep -c '' ${path}`),
];

/** Makes the changes one after the other, each in a round of its own, with a look at the files now and then. */
function* change(seen: Seen, changes: Change[], { reread, slip = 0, each = 4 }: Manner): Steps {
  let count = 0;
  for (const part of changes) {
    const { path, by } = part;
    for (let n = 0; n < each; n++) {
      const text = seen.get(path) ?? "";
      const old = placeOf(text, part);
      if (!old) break;
      count++;
      const back = 40 + 10 * (count % 4);
      const around = read(path, Math.max(1, lineOf(text, old) - back), back + 6);
      if (reread && count % reread === 0)
        yield { note: `Before I change ${path}, its lines once more.`, calls: [around] };
      const edit = (old_text: string): Call => ({
        name: "edit_file",
        input: { path, old_text, new_text: by(old_text) },
      });
      if (slip && count % slip === 0) {
        yield { note: `The next place in ${path}.`, calls: [edit(old.replace(/^/gm, "\t"))] };
        yield { note: "That is not how it is indented. I look again.", calls: [around] };
      }
      const [result = ""] = yield {
        note: `${path}: ${old.trim().split("\n")[0]?.slice(0, 80)}`,
        text: count % 5 === 1 ? `Now ${path}, place ${n + 1}.` : undefined,
        calls: [edit(old)],
      };
      // Only a part of the file was read, and there are more places like this one.
      if (result.includes("occurs")) yield* twice(seen, path, old, by);
      if (count % 3 === 0)
        yield { note: "A look beside the edits.", calls: [checks[(count / 3) % checks.length]?.(path) ?? bash("ls")] };
    }
  }
}

function* twice(seen: Seen, path: string, old: string, by: Change["by"]): Steps {
  yield { note: `It stands in ${path} more than once; I read all of it.`, calls: [read(path)] };
  const text = seen.get(path) ?? "";
  const at = text.indexOf(old);
  const end = text.indexOf("\n", text.indexOf("\n", at + old.length + 1) + 1);
  const start = text.lastIndexOf("\n", text.lastIndexOf("\n", at - 1) - 1) + 1;
  const old_text = text.slice(start, end);
  yield {
    note: "With the lines around it, it is unique.",
    calls: [{ name: "edit_file", input: { path, old_text, new_text: by(old_text) } }],
  };
}

const rename = (path: string, from: string, to: string): Change => ({
  path,
  pattern: new RegExp(`\\b${from}\\b`),
  by: (text) => text.replace(new RegExp(`\\b${from}\\b`, "g"), to),
});
/** A sentence from a name: checkHistory becomes "check history". */
const wordsOf = (name: string) => name.replace(/[A-Z]+/g, (capital) => ` ${capital.toLowerCase()}`).trim();
/** A comment behind the brace that opens a function, where there is none yet. */
const explain = (path: string): Change => ({
  path,
  pattern: /^(export )?(async )?function\*? \w+.*\{$/,
  by: (text) =>
    text.replace(
      /^((?:export )?(?:async )?function\*? (\w+).*\{)$/m,
      (_, head, name) => `${head} // in short: ${wordsOf(name)}`,
    ),
});
const describe = (path: string): Change => ({
  path,
  pattern: /^(export )?const [a-z]\w* = .*=>/,
  by: (text) =>
    text.replace(
      /^((?:export )?const ([a-z]\w*) = )/m,
      (_, head, name) => `/** ${wordsOf(name)}, in one step. */\n${head}`,
    ),
});
const replace = (path: string, from: RegExp, to: string): Change => ({
  path,
  pattern: from,
  by: (text) => text.replace(new RegExp(from, "g"), to),
});

/** Keeps the files as they are, to compare with later, and looks around. */
function* begin(folders: string): Steps {
  yield { note: "First what there is.", text: "I look around.", calls: [bash("ls -p"), bash(`ls -p ${folders}`)] };
  yield {
    note: "A copy to compare with, and the sizes.",
    calls: [
      bash("mkdir before && cp -r agents offline tests README.md before/"),
      bash(`wc -lc ${folders.replace(/(\w+)/g, "$1/*.ts")}`),
    ],
  };
}

/** Reads a file from its first line to its last, some lines a round. */
function* readInParts(path: string, lines: number, parts: number): Steps {
  for (let i = 0; i < parts; i++) {
    const [result = ""] = yield {
      note: `${path}, from line ${1 + i * lines} on.`,
      calls: [read(path, 1 + i * lines, lines)],
    };
    if (!/\n\[\d+ more lines; .*\]$/.test(result)) return;
  }
}

const differences = (folders: string): Call =>
  bash(`for f in ${folders}; do diff -r before/$f $f; done | head -c 30000`);

// --- the sessions ---------------------------------------------------------------------------------------------------

const LESSONS = [
  "agents/s01_agent_loop.ts",
  "agents/s02_tool_use.ts",
  "agents/s03_todo_write.ts",
  "agents/s04_subagent.ts",
  "agents/s05_skill_loading.ts",
  "agents/s06_context_compact.ts",
];
const SUITES = [
  "tests/s01_agent_loop.test.ts",
  "tests/s02_tool_use.test.ts",
  "tests/s03_todo_write.test.ts",
  "tests/s04_subagent.test.ts",
  "tests/s05_skill_loading.test.ts",
  "tests/s06_context_compact.test.ts",
];
const [S01 = "", S02 = "", , , , S06 = ""] = LESSONS;
const OTHERS = ["tests/crashes.test.ts", "tests/escapes.test.ts", "tests/faults.test.ts", "tests/harness.ts"];

const renameConstants: Session = {
  name: "rename-constants",
  requests: [
    {
      asks: "Some constants of the shell and file tools have poor names. Look at all lessons and tell me which you would rename.",
      *work() {
        yield* begin("agents tests");
        yield { note: "All constants.", calls: [bash("grep -nE '^(export )?const [A-Z_]+ = ' agents/*.ts")] };
        yield { note: "The first lesson whole, since the others repeat it.", calls: [read(S01)] };
        const parts = LESSONS.slice(1).map((path) => read(path, 100, 130));
        yield { note: "The same part of the others.", text: "Now the other five, side by side.", calls: parts };
        return "GRACE says too little: it is the time before a command is killed. CAPTURE is a limit of the output, and BASH_LIMIT a time. I would rename these three, and READ_LIMIT with them.";
      },
    },
    {
      asks: "Call GRACE KILL_DELAY in every lesson.",
      *work(seen) {
        const plan = ["s01 to s03", "s04 to s06", "check"];
        yield { note: "Six files, four places each.", calls: [todo(plan, 0), bash("grep -n GRACE agents/*.ts")] };
        const changes = LESSONS.map((path) => rename(path, "GRACE", "KILL_DELAY"));
        yield* change(seen, changes.slice(0, 3), { reread: 0, slip: 7, each: 3 });
        yield { note: "Half of them are done.", calls: [todo(plan, 1)] };
        yield* change(seen, changes.slice(3), { reread: 3, each: 3 });
        yield { note: "What is left?", calls: [bash("grep -nw GRACE agents/*.ts"), todo(plan, 3)] };
        return "GRACE is KILL_DELAY in all six lessons.";
      },
    },
    {
      asks: "And CAPTURE should be OUTPUT_LIMIT, BASH_LIMIT should be COMMAND_LIMIT.",
      *work(seen) {
        const changes = LESSONS.flatMap((path) => [
          rename(path, "CAPTURE", "OUTPUT_LIMIT"),
          rename(path, "BASH_LIMIT", "COMMAND_LIMIT"),
        ]);
        yield { note: "Where they stand.", calls: [bash("grep -nwE 'CAPTURE|BASH_LIMIT' agents/*.ts tests/*.ts")] };
        yield* change(seen, changes, { reread: 3, slip: 11, each: 2 });
        yield { note: "Nothing may be left.", calls: [bash("grep -cwE 'CAPTURE|BASH_LIMIT' agents/*.ts")] };
        return "Both are renamed in all lessons; no test names them.";
      },
    },
    {
      asks: "In the suites the module under test is called lesson here and s01 there. Have a look, and name it agent where it is called lesson.",
      *work(seen) {
        yield { note: "Where it is imported.", calls: [bash("grep -nE 'underTest|await import' tests/*.ts")] };
        yield { note: "One suite whole.", calls: [read(SUITES[2] ?? "")] };
        yield { note: "And the beginnings of others.", calls: SUITES.slice(3).map((path) => read(path, 1, 110)) };
        const changes = SUITES.slice(2).map((path) => rename(path, "lesson", "agent"));
        yield* change(seen, changes, { reread: 3, slip: 8, each: 3 });
        yield { note: "How many are left?", calls: [bash("grep -cw lesson tests/*.ts")] };
        return "I renamed the first uses in four suites; the rest of each is the same change, over and over.";
      },
    },
    {
      asks: "Then READ_LIMIT: call it FILE_LIMIT.",
      *work(seen) {
        const places = LESSONS.slice(1).map((path) => read(path, 225, 120));
        yield { note: "The file tools, which s01 does not have.", calls: places };
        const changes = LESSONS.slice(1).map((path) => rename(path, "READ_LIMIT", "FILE_LIMIT"));
        yield* change(seen, changes, { reread: 0, each: 1 });
        return "READ_LIMIT is FILE_LIMIT from s02 on.";
      },
    },
    {
      asks: "KILL_DELAY is too harsh after all. Call it STOP_DELAY in s01 and s02, I will do the rest.",
      *work(seen) {
        yield* change(
          seen,
          LESSONS.slice(0, 2).map((path) => rename(path, "KILL_DELAY", "STOP_DELAY")),
          { reread: 0, each: 3 },
        );
        return "Both have it.";
      },
    },
    {
      asks: "Show me all that changed, and write it down in CHANGES.md.",
      *work() {
        yield { note: "The difference to the copy.", calls: [differences("agents tests")] };
        const text =
          "# Changes\n\n- GRACE is KILL_DELAY\n- CAPTURE is OUTPUT_LIMIT\n- BASH_LIMIT is COMMAND_LIMIT\n- READ_LIMIT is FILE_LIMIT\n";
        yield { note: "Four lines say it.", calls: [write("CHANGES.md", text)] };
        yield {
          note: "The tests belong there, too.",
          calls: [
            {
              name: "edit_file",
              input: {
                path: "CHANGES.md",
                old_text: "- READ_LIMIT is FILE_LIMIT\n",
                new_text: "- READ_LIMIT is FILE_LIMIT\n- suites: lesson is agent\n",
              },
            },
          ],
        };
        return "CHANGES.md lists the names, old and new.";
      },
    },
  ],
};

const commentServer: Session = {
  name: "comment-the-server",
  requests: [
    {
      asks: "Read offline/server.ts from top to bottom and explain to me how it is built.",
      *work() {
        yield* begin("offline tests");
        yield { note: "Its regions first.", calls: [bash("grep -nE '#(end)?region' offline/server.ts")] };
        yield* readInParts("offline/server.ts", 200, 5);
        return "A request is checked in three steps: its shape, its parameters, its history. Then the prompt becomes lines, which give the tokens, the signatures and the cache; the model answers, and the reply is sent as a stream of events or at once.";
      },
    },
    {
      asks: "Most functions there say nothing about themselves. Add a few words to each.",
      *work(seen) {
        const plan = ["functions", "small functions", "model.ts and run.ts"];
        yield { note: "One after the other.", calls: [todo(plan, 0)] };
        yield* change(seen, [explain("offline/server.ts")], { reread: 4, slip: 6, each: 12 });
        yield { note: "That was the first part.", calls: [todo(plan, 1)] };
        return "The functions that need it most have a few words now.";
      },
    },
    {
      asks: "The small functions in one line could do with it, too.",
      *work(seen) {
        yield* change(seen, [describe("offline/server.ts")], { reread: 0, each: 7 });
        yield {
          note: "The comments alone.",
          calls: [bash("diff before/offline/server.ts offline/server.ts | grep '^>'")],
        };
        return "They have a line each.";
      },
    },
    {
      asks: "Now the same in model.ts and run.ts.",
      *work(seen) {
        const files = ["offline/model.ts", "offline/run.ts"];
        yield { note: "Both whole.", calls: files.map((path) => read(path)) };
        const changes = files.flatMap((path) => [explain(path), describe(path)]);
        yield* change(seen, changes, { reread: 3, slip: 9, each: 4 });
        return "Done in both files.";
      },
    },
    {
      asks: "Look whether the suite of the server needs it as well, and mend its helpers.",
      *work(seen) {
        yield {
          note: "How long is it?",
          calls: [bash("wc -lc tests/offline_*.ts && grep -c 'test(' tests/offline_*.ts")],
        };
        yield* readInParts("tests/offline_server.test.ts", 230, 5);
        const path = "tests/offline_server.test.ts";
        yield* change(seen, [describe(path), explain(path)], { reread: 3, each: 6 });
        return "The helpers at its top are explained; the cases speak for themselves.";
      },
    },
    {
      asks: 'The words "in short" say nothing. Take them out again, in server.ts and in model.ts.',
      *work(seen) {
        const files = ["offline/server.ts", "offline/model.ts"];
        yield {
          note: "How many are there?",
          calls: [
            bash("grep -c 'in short: ' offline/*.ts"),
            bash("grep -nE '(describe|test)\\(' tests/*.ts | head -c 30000"),
          ],
        };
        yield* change(
          seen,
          files.map((path) => replace(path, / in short:/, "")),
          { reread: 5, each: 6 },
        );
        return "They are gone.";
      },
    },
    {
      asks: "Write a page OFFLINE.md about the server, with a table of what it can be told to fail with.",
      *work(seen) {
        const [kinds = ""] = yield {
          note: "The kinds of failure.",
          calls: [bash("grep -n '{ kind: ' offline/server.ts")],
        };
        const rows = [...kinds.matchAll(/kind: "(\w+)"/g)].map(([, kind]) => `| ${kind} | |`);
        const page = `# The offline server\n\nIt speaks the Messages API on this machine.\n\n| failure | what happens |\n|---|---|\n${rows.join("\n")}\n`;
        yield { note: "The page, with the table still empty.", calls: [write("OFFLINE.md", page)] };
        const fill = {
          path: "OFFLINE.md",
          pattern: /\| \|$/,
          by: (text: string) => text.replace(/\| \|$/m, "| see server.ts |"),
        };
        yield* change(seen, [fill], { reread: 0, each: 4 });
        yield { note: "All that changed today.", calls: [differences("offline tests")] };
        return "OFFLINE.md is there.";
      },
    },
  ],
};

const LIST_FILES = `/** The files of a folder, in order. @throws if it is none */
export function runList(path: string): string {
  return readdirSync(safePath(path)).sort().join("\\n") || "(empty folder)";
}

`;
const LIST_TOOL = `addTool("list_files", "List the files of a folder.", z.object({ path: z.string() }), ({ path }) => runList(path));

`;
const newTool: Session = {
  name: "a-new-tool",
  requests: [
    {
      asks: "I want a tool list_files in s02 and in all lessons after it. First find out how a tool is added.",
      *work() {
        yield* begin("agents skills tests");
        yield {
          note: "A skill for the tests is there.",
          calls: [{ name: "load_skill", input: { name: "write-tests" } }],
        };
        yield {
          note: "Where tools are added.",
          calls: [bash("grep -nA8 '^addTool(' agents/s02_tool_use.ts"), bash("grep -c addTool agents/*.ts")],
        };
        yield { note: "The lesson where they begin.", calls: [read(S02)] };
        return "A function runs it, and one call of addTool gives it a name, a description, a schema and a handler. It belongs behind edit_file.";
      },
    },
    {
      asks: "Try it as a script of its own before you touch the lesson.",
      *work(seen) {
        const script =
          'import { readdirSync } from "node:fs";\n\nconst path = process.argv[2] ?? ".";\nconst names = readdirSync(path).sort();\nconsole.log(names.join("\\n"));\n';
        yield { note: "A few lines.", calls: [write("list.mjs", script)] };
        yield { note: "Does it run?", calls: [bash("node list.mjs agents"), bash("node list.mjs skills")] };
        const changes = [
          replace("list.mjs", /^const names = .*$/, "const names = readdirSync(path, { recursive: true }).sort();"),
        ];
        yield* change(seen, changes, { reread: 0, each: 1 });
        yield {
          note: "And below.",
          calls: [bash("node list.mjs skills && node --check list.mjs && node list.mjs . | wc -l")],
        };
        return "It works, also for folders within folders, which the tool need not show.";
      },
    },
    {
      asks: "Good. Write the tool in s02.",
      *work(seen) {
        const plan = ["s02", "s03 to s06", "tests", "README"];
        yield { note: "Four parts.", calls: [todo(plan, 0)] };
        yield* change(seen, toolIn(S02), { reread: 0, each: 1 });
        yield { note: "Is the rest as it was?", calls: [bash(`diff before/${S02} ${S02}`), todo(plan, 1)] };
        return "s02 has it.";
      },
    },
    {
      asks: "Carry it over to the later lessons, in the same words.",
      *work(seen) {
        const later = LESSONS.slice(2);
        yield { note: "Their heads.", calls: later.map((path) => read(path, 1, 60)) };
        yield { note: "And where the tools stand.", calls: later.map((path) => read(path, 225, 160)) };
        yield* change(seen, later.flatMap(toolIn), { reread: 3, slip: 7, each: 1 });
        yield { note: "Each has it once.", calls: [bash("grep -c list_files agents/*.ts")] };
        return "s03 to s06 have it, too.";
      },
    },
    {
      asks: "And its tests.",
      *work(seen) {
        yield {
          note: "How the suite of s02 tests tools, and its harness.",
          calls: [read(SUITES[1] ?? ""), read("tests/harness.ts")],
        };
        const path = "tests/list_files.test.ts";
        const suite = `import assert from "node:assert/strict";\nimport { test } from "node:test";\n\ntest("a folder is listed in order", () => {\n  assert.ok(true);\n});\n\ntest("an empty folder says so", () => {\n  assert.ok(true);\n});\n\ntest("a file is no folder", () => {\n  assert.ok(true);\n});\n`;
        yield { note: "Three cases.", calls: [write(path, suite)] };
        const cases = replace(path, /assert\.ok\(true\)/, 'assert.match(runList("."), /./)');
        yield* change(seen, [cases], { reread: 0, each: 3 });
        const names = [
          rename(SUITES[1] ?? "", "folder", "workspace"),
          rename("tests/harness.ts", "folder", "workspace"),
        ];
        yield* change(seen, names, { reread: 3, slip: 5, each: 4 });
        return "tests/list_files.test.ts has three cases, and the suites say workspace where they mean it.";
      },
    },
    {
      asks: "The messages of the tools say folder; say directory, everywhere.",
      *work(seen) {
        yield { note: "How often?", calls: [bash("grep -nw folder agents/*.ts | head -c 30000")] };
        const changes = LESSONS.map((path) => replace(path, /\bfolder\b/, "directory"));
        yield { note: "s01 I have not read yet.", calls: [read(S01)] };
        yield* change(seen, changes, { reread: 4, slip: 13, each: 3 });
        return "The messages say directory.";
      },
    },
    {
      asks: "Put it into the README, and show me the difference.",
      *work(seen) {
        yield { note: "The README.", calls: [read("README.md")] };
        const changes = [
          replace("README.md", /a dispatch map, file tools\b/, "a dispatch map, file tools, list_files"),
          replace("README.md", /\bfolder\b/, "directory"),
        ];
        yield* change(seen, changes, { reread: 0, each: 3 });
        yield { note: "All of it.", calls: [differences("agents tests README.md")] };
        return "The README names the tool.";
      },
    },
  ],
};

/** The new tool in a lesson: what it imports, the function, and the entry. */
const toolIn = (path: string): Change[] => [
  replace(path, /^ {2}readFileSync,$/, "  readdirSync,\n  readFileSync,"),
  replace(
    path,
    /^\/\*\* Writes a file and the folders it needs/,
    `${LIST_FILES}/** Writes a file and the folders it needs`,
  ),
  replace(
    path,
    /^\/\*\* Runs one tool call and returns its output/,
    `${LIST_TOOL}/** Runs one tool call and returns its output`,
  ),
];

const reviewAll: Session = {
  name: "review-everything",
  requests: [
    {
      asks: "Load the code-review skill and get an overview of the whole repository.",
      *work() {
        yield* begin("agents offline skills tests");
        yield { note: "How a review is done here.", calls: [{ name: "load_skill", input: { name: "code-review" } }] };
        const files = [...LESSONS, ...SUITES, "offline/server.ts", "offline/model.ts"];
        yield {
          note: "The head of everything.",
          text: "All heads at once.",
          calls: files.map((path) => read(path, 1, 70)),
        };
        const signs = [
          "any",
          "as ",
          "TODO",
          "catch {",
          "while (true",
          "process.exit",
          "eval(",
          "setTimeout",
          "JSON.parse",
          "!\\.",
          "delete ",
          "throw new Error",
        ];
        yield {
          note: "What often smells.",
          calls: signs.map((sign) =>
            bash(`grep -nF -e '${sign}' agents/s06_context_compact.ts offline/*.ts | head -40`),
          ),
        };
        return "Nothing alarming: few casts, no eval. The error messages and the comments deserve a closer look, then the shell and the file tools.";
      },
    },
    {
      asks: "Then look closer at the shell and at the file tools in every lesson, and at the tests of both.",
      *work() {
        const shell = LESSONS.map((path) => read(path, 95, 90));
        const files = LESSONS.slice(1).map((path) => read(path, 190, 90));
        yield { note: "Eleven places.", calls: [...shell, ...files] };
        yield { note: "And the suites that try to break them.", calls: OTHERS.map((path) => read(path, 1, 160)) };
        return "The code is the same in each lesson, as it should be. The functions lack a word on what they are for, and the suites call different things by one name.";
      },
    },
    {
      asks: "Mend that: a few words for the functions in the lessons, and name things in the suites.",
      *work(seen) {
        const plan = ["functions", "suites", "histories", "report"];
        yield { note: "In this order.", calls: [todo(plan, 0)] };
        yield* change(seen, LESSONS.map(explain), { reread: 4, slip: 8, each: 2 });
        yield { note: "The lessons are done.", calls: [todo(plan, 1), bash("grep -c 'in short' agents/*.ts")] };
        yield* change(
          seen,
          OTHERS.map((path) => rename(path, "folder", "workspace")),
          { reread: 2, each: 3 },
        );
        yield { note: "The suites, too.", calls: [todo(plan, 2)] };
        return "Both are done for what I have read.";
      },
    },
    {
      asks: "Review tests/s06_histories.test.ts and mend what you find.",
      *work(seen) {
        const path = "tests/s06_histories.test.ts";
        yield* readInParts(path, 190, 4);
        yield* change(seen, [describe(path), explain(path), rename(path, "history", "messages")], {
          reread: 2,
          slip: 6,
          each: 6,
        });
        return "Its helpers are explained.";
      },
    },
    {
      asks: "You read the file tools before. Their messages should name the tool first; are there any that do not?",
      *work(seen) {
        yield { note: "All messages.", calls: [bash("grep -nA1 'throw new Error' agents/*.ts")] };
        const changes = LESSONS.slice(1).map((path) =>
          replace(path, /is outside the workspace/, "lies outside the workspace"),
        );
        yield* change(seen, [...changes, ...LESSONS.map((path) => replace(path, /timed out after/, "stopped after"))], {
          reread: 0,
          each: 1,
        });
        return "One did not fit; it is mended in every lesson.";
      },
    },
    {
      asks: "Go over all that changed once more, file by file, and write REVIEW.md.",
      *work() {
        const files = [...LESSONS, ...OTHERS, "tests/s06_histories.test.ts"];
        yield { note: "Eleven differences.", calls: files.map((path) => bash(`diff before/${path} ${path}`)) };
        const lines = files.map((path) => `- ${path}: read, names and comments mended`);
        yield { note: "The report.", calls: [write("REVIEW.md", `# Review\n\n${lines.join("\n")}\n`)] };
        yield { note: "Is it all there?", calls: [bash("cat REVIEW.md && wc -l REVIEW.md")] };
        return "REVIEW.md says what was read and what was mended.";
      },
    },
  ],
};

const PARTS = ["limits", "counting", "transcript", "requests", "micro-compact", "auto-compact", "when", "resume"];
const partFile = (name: string) => `parts/${name}.ts`;
const splitLesson: Session = {
  name: "split-a-long-lesson",
  requests: [
    {
      asks: "agents/s06_context_compact.ts is long. Read all of it and tell me how you would cut it.",
      *work() {
        yield* begin("agents tests");
        yield { note: "Its regions.", calls: [bash(`grep -nE '#(end)?region' ${S06}`)] };
        yield* readInParts(S06, 190, 9);
        return "Its regions are the cut: limits, counting, transcript, requests, the three layers, when, and resume. Each could be a file of its own.";
      },
    },
    {
      asks: "What does each of them use from the others?",
      *work() {
        const names = [
          "THRESHOLD",
          "sessionOf",
          "blocksOf",
          "chars",
          "record",
          "rewrite",
          "takeNote",
          "requestIn",
          "stripThinking",
          "microCompact",
          "autoCompact",
          "pairUp",
        ];
        yield { note: "Twelve names.", calls: names.map((name) => bash(`grep -nw ${name} ${S06}`)) };
        return "counting and requests are used everywhere; resume uses the transcript alone.";
      },
    },
    {
      asks: "Make the files, in a folder parts/, and leave the lesson as it is.",
      *work(seen) {
        const plan = ["the files", "their functions", "the lesson", "the tests"];
        yield { note: "First the files.", calls: [todo(plan, 0)] };
        for (const name of PARTS) {
          const cut = `mkdir -p parts && sed -n '/^\\/\\/ #region ${name}$/,/^\\/\\/ #endregion$/p' ${S06} > ${partFile(name)} && wc -lc ${partFile(name)}`;
          yield { note: `The region ${name}.`, calls: [bash(cut)] };
        }
        yield { note: "What they look like.", calls: PARTS.map((name) => read(partFile(name))) };
        yield { note: "Now their functions.", calls: [todo(plan, 1)] };
        yield* change(
          seen,
          PARTS.map((name) => replace(partFile(name), /^function /, "export function ")),
          { reread: 4, slip: 9, each: 4 },
        );
        return "parts/ has eight files; what others use is exported.";
      },
    },
    {
      asks: "In the lesson itself, a few words for each function would do.",
      *work(seen) {
        yield* change(seen, [explain(S06), describe(S06)], { reread: 5, slip: 8, each: 10 });
        yield { note: "How it looks now.", calls: [bash(`diff before/${S06} ${S06}`)] };
        return "The functions of s06 have a few words each.";
      },
    },
    {
      asks: "Look at the tests of s06: which of them belong to which part?",
      *work() {
        yield { note: "Their names.", calls: [bash("grep -nE '(test|describe)\\(' tests/s06_*.ts")] };
        yield* readInParts("tests/s06_transcript.ts", 220, 3);
        yield* readInParts("tests/s06_context_compact.test.ts", 250, 5);
        return "s06_transcript is about transcript and resume; the suite itself about the layers, in their order.";
      },
    },
    {
      asks: "Name the helpers in both so that one sees what they do.",
      *work(seen) {
        const files = ["tests/s06_transcript.ts", "tests/s06_context_compact.test.ts"];
        yield* change(
          seen,
          files.flatMap((path) => [describe(path), rename(path, "quiet", "silently")]),
          { reread: 2, slip: 7, each: 7 },
        );
        return "They have a comment or a better name.";
      },
    },
    {
      asks: "Not everything in parts/ must be exported: take it back where only the part itself uses it.",
      *work(seen) {
        yield {
          note: "Who uses what?",
          calls: PARTS.map((name) => bash(`grep -n 'export function' ${partFile(name)}`)),
        };
        const inner = PARTS.map((name) => replace(partFile(name), /^export function /, "function "));
        yield* change(seen, inner, { reread: 4, each: 1 });
        return "Each part keeps one function to itself.";
      },
    },
    {
      asks: "Show me the sizes before and after, and all differences.",
      *work() {
        yield {
          note: "Both.",
          calls: [bash("wc -lc before/agents/*.ts agents/*.ts parts/*.ts"), differences("agents tests")],
        };
        const list = PARTS.map((name) => `- ${name}.ts: the region ${name}`).join("\n");
        yield {
          note: "A list of the parts, for whoever comes next.",
          calls: [write("parts/README.md", `# Parts\n\n${list}\n`)],
        };
        return "The lesson grew by its comments; the parts together are as long as their regions.";
      },
    },
  ],
};

export const SESSIONS: Session[] = [renameConstants, commentServer, newTool, reviewAll, splitLesson];
