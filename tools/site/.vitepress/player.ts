/** A recorded run of a lesson, step by step: the script, what the next request sends, the messages. All of it is in the page. */
import type { Block, Run } from "../../docs/runs.ts";
import { type Highlight, highlightLines, lessonCalled } from "./code.ts";
import { SECTIONS } from "./sections.ts";
import { type Item, promptOf, type Request, runOf, type Step, stepsOf } from "./steps.ts";
import { number, words } from "./words.ts";

type Labels = ReturnType<typeof words>["player"];
const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

/** With the whole script, or with its loop alone. */
export function player(name: string, prefix: string, highlight: Highlight, isWhole: boolean): string {
  const run = runOf(name);
  const labels = words(prefix).player;
  const { steps, items } = stepsOf(name, prefix);
  const { file } = lessonCalled(name);
  return `<section class="player vp-raw" v-pre aria-label="${labels.title(name)}" data-steps="${escaped(JSON.stringify(steps))}">
<p class="head"><a href="source/${file}.html">${file}</a> <label class="follows"><input type="checkbox" checked> ${labels.follows}</label></p>
${script(name, highlight, isWhole)}
<p class="says" aria-live="polite"><span>${steps[0]?.says}</span> <code></code></p>
${request(run, steps[0]?.request, labels)}
<ol class="messages" tabindex="0" aria-label="messages"><li class="command"><pre>${escaped(run.command)}</pre></li>${items.map((item) => show(item, labels)).join("")}</ol>
${controls(steps, labels)}
</section>`;
}

function script(name: string, highlight: Highlight, isWhole: boolean): string {
  const lesson = lessonCalled(name);
  const { from, to } = lesson.regions.get("loop") ?? { from: 1, to: 1 };
  const start = lesson.lines.findIndex((line) => line.includes("function agentLoop"));
  const end = lesson.lines.indexOf("}", start);
  const lines = highlightLines(lesson, highlight).map(
    (line, i) => `<span class="line" data-line="${i}">${line}</span>`,
  );
  const rest = (part: string[]) => (isWhole ? `<span class="rest">${part.join("")}</span>` : "");
  const loop = lines.slice(start, end + 1).join("");
  return `<pre class="script vp-code" style="--lines: ${end - start + 1}" tabindex="0" aria-label="${lesson.file}, ${from}–${to}"><code>${rest(lines.slice(0, start))}<span class="loop" style="counter-set: line ${start}">${loop}</span>${rest(lines.slice(end + 1))}</code></pre>`;
}

/** The bar spans what the run sends. A limit that is far away is a mark at its end. */
function request({ calls, limit, model, window }: Run, first: Request | undefined, labels: Labels): string {
  const largest = Math.max(...calls.map(({ usage }) => promptOf(usage)));
  const most = limit ?? window;
  const isFar = most > 2 * largest;
  const span = 1.15 * (isFar ? largest : Math.max(most, largest));
  const place = isFar ? 100 : (100 * most) / span;
  const name = limit === undefined ? labels.window(model, most) : labels.limit(most);
  const { label, read, fresh } = first ?? { label: "", read: 0, fresh: 0 };
  return `<div class="request" data-span="${span}" data-none="${labels.noRequest}" data-unit="${labels.unit}">
<p><b class="label">${label}</b> <b class="total">${number(read + fresh)} ${labels.unit}</b></p>
<div class="meter"><i class="read"></i><i class="fresh" style="width: ${(100 * fresh) / span}%"></i><i class="limit${isFar ? " far" : ""}" style="left: ${place}%"></i></div>
<p class="counts"><span class="read">${labels.read} <b>${number(read)}</b></span><span class="fresh">${labels.fresh} <b>${number(fresh)}</b></span><span class="limit">${name}</span></p>
</div>`;
}

function controls(steps: Step[], labels: Labels): string {
  const button = (name: "previous" | "next", sign: string) =>
    `<button type="button" data-do="${name}" title="${labels[name]}" aria-label="${labels[name]}">${sign}</button>`;
  const last = steps.length - 1;
  const marks = steps.map(({ mark }, i) => (mark ? `<i class="${mark}" style="--at: ${i / last}"></i>` : ""));
  const speeds = [0.5, 1, 2, 4].map(
    (speed) => `<option value="${speed}"${speed === 1 ? " selected" : ""}>${speed}×</option>`,
  );
  return `<div class="controls">
<div class="slide"><input type="range" min="0" max="${last}" value="0" aria-label="${labels.step}"><span class="marks" aria-hidden="true">${marks.join("")}</span></div>
<span class="count">1 / ${steps.length}</span>
<div class="buttons">${button("previous", "‹")}${button("next", "›")}<button type="button" class="play" data-do="play" data-pause="${labels.pause}">${labels.play}</button><select class="speed" aria-label="${labels.speed}">${speeds.join("")}</select></div>
</div>`;
}

function show({ message, says, child, at, arrived, struck, until }: Item, labels: Labels): string {
  const from = at[0] ?? arrived;
  const data = Object.entries({ from, in: arrived, struck, until }).flatMap(([name, step]) =>
    step === undefined ? [] : `data-${name}="${step}"`,
  );
  const blocks = message?.blocks.map((block, i) => showBlock(block, at[i] ?? from, labels)) ?? [];
  const kind = message?.role ?? "event";
  return `<li class="${kind}${child ? " child" : ""}" ${data.join(" ")}>${message ? `<b>${kind}</b>` : says}${blocks.join("")}</li>`;
}

function showBlock({ kind, tool, text, more }: Block, from: number, labels: Labels): string {
  const rest = more ? `\n<i>${labels.more(more)}</i>` : "";
  const label = `${labels.kinds[kind]}${tool ? ` <code>${tool}</code>` : ""}`;
  return `<div class="block ${kind}" data-from="${from}"><small>${label}</small><pre>${escaped(text)}${rest}</pre></div>`;
}

/** The step that a section is about. @throws when the run has no such step */
export function stepOf(name: string, section: string): number | undefined {
  const wanted = SECTIONS[name]?.[section];
  if (wanted === undefined) return;
  const [, step, number = "1"] = /^(.*?)(?: (\d+))?$/.exec(wanted) ?? [];
  const places = stepsOf(name, "").steps.flatMap((each, i) => (each.name === step ? [i] : []));
  const place = places[Number(number) - 1];
  if (place === undefined) throw new Error(`the run of ${name} has no step "${wanted}", which is that of ${section}`);
  return place;
}
