/** A recorded run of a lesson, step by step: the loop, the messages, and what each step changes. All of it is in the page. */
import type { Block, Message, Run, Usage } from "../../docs/runs.ts";
import { type Highlight, highlightLines, lessonCalled } from "./code.ts";
import { read } from "./files.ts";
import { words } from "./words.ts";

/** What the lines of `agentLoop` have that the steps are about. */
const LINES = {
  start: "function agentLoop",
  compact: "compactIfNeeded(",
  call: "const reply =",
  reply: 'role: "assistant"',
  end: "return reply",
  run: "runCall(call",
  remind: "push(REMINDER)",
  results: "content: results",
};

/** A message, or a sentence about what happened. `at` has the step at which each block appears; at `arrived` it is in the array, at `until` it goes. */
type Item = { message?: Message; says: string; child: boolean; at: number[]; arrived: number; until?: number };

const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

const promptOf = (usage: Usage) =>
  usage.cache_read_input_tokens + usage.cache_creation_input_tokens + usage.input_tokens;

export function player(name: string, prefix: string, highlight: Highlight): string {
  const run: Run = JSON.parse(read(`tools/docs/runs/${name}.json`));
  const labels = words(prefix).player;
  const lesson = lessonCalled(name);
  const from = lesson.lines.findIndex((line) => line.includes(LINES.start));
  const to = lesson.lines.indexOf("}", from);
  const loop = lesson.lines.slice(from, to + 1);

  const steps: [line: number, says: string][] = [];
  const items: Item[] = [];
  function step(mark: keyof typeof LINES, says: string): number {
    const line = loop.findIndex((each) => each.includes(LINES[mark]));
    if (line < 0) throw new Error(`the loop of ${name} has no line with ${LINES[mark]}`);
    return steps.push([line, says]) - 1;
  }
  const add = (child: boolean, at: number[], arrived: number, message?: Message, says = "") =>
    items.push({ message, says, child, at, arrived });
  const tell = (child: boolean, now: number, says: string) => add(child, [now], now, undefined, says);
  const current = (child: boolean) => items.filter((item) => item.child === child && item.until === undefined);
  const length = (child: boolean) => current(child).filter(({ message }) => message).length;
  function drop(child: boolean, until: number): void {
    for (const item of current(child)) item.until = until;
  }

  const called = { parent: [] as Block[], child: [] as Block[] }; // the tool calls of the last reply
  let inChild = false;
  for (const { child, compacted, messages, usage, reply } of run.calls) {
    if (child && !inChild) tell(true, step("run", labels.child), labels.child);
    inChild = child;
    const who = child ? "child" : "parent";
    const calls = called[who];
    const isFirst = length(child) === 0;
    if (compacted) {
      const isAsked = called.parent.some(({ tool }) => tool === "compact");
      const says = labels.compact(isAsked, length(child), messages.length);
      const now = step("compact", says);
      drop(child, now);
      tell(child, now, says);
      for (const message of messages) add(child, [now], now, message);
    } else if (isFirst) {
      const now = step("start", child ? labels.prompt : labels.start);
      for (const message of messages) add(child, [now], now, message);
    } else {
      for (const message of messages) {
        const at = message.blocks.map(({ kind }, i) => {
          const tool = calls[i]?.tool ?? "";
          if (kind === "note") return step("remind", labels.remind);
          if (tool === "task" && !child) {
            const now = step("run", labels.back);
            drop(true, now);
            return now;
          }
          return step("run", labels.run(tool));
        });
        add(child, at, step("results", labels.results), message);
      }
    }
    if (!reply) continue; // a summary: what it changes comes with the next call
    const now = step("call", labels.call(length(child), promptOf(usage)));
    add(child, [now], step("reply", labels.reply), reply);
    called[who] = reply.blocks.filter(({ kind }) => kind === "tool_use");
    if (called[who].length === 0) step("end", child ? labels.childEnd : labels.end);
  }

  const code = highlightLines(lesson, highlight).slice(from, to + 1);
  return `<section class="player vp-raw" v-pre aria-label="${labels.title(name)}" data-steps="${escaped(JSON.stringify(steps))}">
<pre class="command"><code>${escaped(run.command)}</code></pre>
<div class="bar">${button("first", "«", labels)}${button("previous", "‹", labels)}${button("next", "›", labels)}<button type="button" class="play" data-do="play" data-pause="${labels.pause}">${labels.play}</button><span class="keys">${labels.keys}</span><span class="count"></span></div>
<p class="says" aria-live="polite"></p>
<div class="sides">
<pre class="loop vp-code" tabindex="0" aria-label="agentLoop"><code>${code.map((line) => `<span class="line">${line}</span>`).join("")}</code></pre>
<ol class="messages" tabindex="0" aria-label="messages">${items.map((item) => show(item, labels)).join("")}</ol>
</div>
</section>`;
}

type Labels = ReturnType<typeof words>["player"];
const button = (name: "first" | "previous" | "next", sign: string, labels: Labels) =>
  `<button type="button" data-do="${name}" title="${labels[name]}" aria-label="${labels[name]}">${sign}</button>`;

function show({ message, says, child, at, arrived, until }: Item, labels: Labels): string {
  const from = at[0] ?? arrived;
  const data = `data-from="${from}" data-in="${arrived}"${until === undefined ? "" : ` data-until="${until}"`}`;
  const blocks = message?.blocks.map((block, i) => showBlock(block, at[i] ?? from, labels)) ?? [];
  const kind = message?.role ?? "event";
  return `<li class="${kind}${child ? " child" : ""}" ${data}>${message ? `<b>${kind}</b>` : says}${blocks.join("")}</li>`;
}

function showBlock({ kind, tool, text, more }: Block, from: number, labels: Labels): string {
  const rest = more ? `\n<i>${labels.more(more)}</i>` : "";
  const label = `${labels.kinds[kind]}${tool ? ` <code>${tool}</code>` : ""}`;
  return `<div class="block ${kind}" data-from="${from}"><small>${label}</small><pre>${escaped(text)}${rest}</pre></div>`;
}
