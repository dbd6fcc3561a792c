/** The viewer: opens a session and shows its context over time, at a model call and at a compaction. */

import type { Step, Timeline } from "../trace/timeline.ts";
import { colourRule } from "./context-chart.ts";
import { make } from "./elements.ts";
import { type Language, WORDS, type Words } from "./languages.ts";
import { makeSession, type Shown } from "./session.ts";
import { makeSessions } from "./sessions-list.ts";
import type { Answer, Question } from "./worker.ts";

export type Options = {
  /** What is open at first. */
  source?: { name: string; url: string };
  /** Of `npm run view`: the file that is open at first, and whether the list of sessions is. */
  served?: { file: string; isOpen: boolean };
  lang?: Language;
};

function stepInAddress(): Step & { file?: string } {
  const values = new URLSearchParams(location.hash.slice(1));
  const index = (name: string) => (/^\d+$/.test(values.get(name) ?? "") ? Number(values.get(name)) - 1 : undefined);
  return { call: index("call"), compaction: index("compaction"), file: values.get("file") ?? undefined };
}

function setAddress({ call, compaction }: Step, file: string): void {
  const values = new URLSearchParams(file && { file });
  if (compaction !== undefined) values.set("compaction", `${compaction + 1}`);
  else values.set("call", `${(call ?? 0) + 1}`);
  history.replaceState(history.state, "", `#${values}`);
}

/** Shows the viewer in `element`. @returns what removes it */
export function mount(element: HTMLElement, { source, served, lang = "en" }: Options = {}) {
  const words = WORDS[lang];
  const status = make("p", { className: "cv-status", role: "status" });
  const title = make("h1");
  const body = make("div", { className: "cv-session" });
  let file = "";
  let worker: Worker | undefined;

  function read(question: Question, step?: Step): void {
    let shown: Partial<Shown> = { step };
    const fail = (reason: string) => {
      status.textContent = reason;
      if (!shown.timeline) body.replaceChildren();
    };
    const show = (timeline: Timeline, isNew: boolean) => {
      const made = makeSession(timeline, words, (to) => setAddress(to, file), isNew ? { step } : shown);
      shown = made.shown;
      status.textContent = words.overview(timeline);
      keepFocus(body, () => body.replaceChildren(made.element));
    };
    worker?.terminate();
    title.textContent = question.name;
    status.textContent = words.reading(question.name);
    worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    worker.addEventListener("message", ({ data }: MessageEvent<Answer>) => {
      if (!question.isLive) worker?.terminate();
      if ("error" in data) fail(words.unreadable(question.name, data.error));
      else if (data.moments.length === 0) fail(words.nothing(question.name));
      else show(data, data.isNew);
    });
    worker.postMessage(question);
  }
  /** A file of `npm run view`. */
  function open(name: string, step?: Step): void {
    file = name;
    const url = new URL(`session?${new URLSearchParams({ file })}`, document.baseURI).href;
    read({ name: file.split(/[\\/]/).at(-1) ?? "", url, isLive: true }, step);
  }
  const choose = (chosen: File) => {
    file = "";
    read({ name: chosen.name, file: chosen });
  };
  const chooser = makeChooser(words, choose);
  const sessions = served && makeSessions(words, served.isOpen, () => file, open);
  sessions?.append(chooser);
  const parts = [make("style", {}, colourRule), title, sessions ?? chooser, status, body];
  element.replaceChildren(make("section", { className: "context-viewer", lang }, ...parts));
  const address = stepInAddress();
  if (served) open(address.file ?? served.file, address);
  else if (source) read({ ...source, url: new URL(source.url, document.baseURI).href }, address);
  return () => {
    worker?.terminate();
    element.replaceChildren();
  };
}

/** How an element that takes the focus is called, in a session that grows, too. */
const labelOf = (element: Element | null) => element?.ariaLabel || element?.textContent;

/** Changes what is in an element; what had the focus has it again. */
function keepFocus(element: HTMLElement, change: () => void): void {
  const label = element.contains(document.activeElement) && labelOf(document.activeElement);
  change();
  const all = [...element.querySelectorAll<HTMLElement>("input, button, pre")];
  if (label) all.find((each) => labelOf(each) === label)?.focus({ preventScroll: true });
}

/** Takes a file that is chosen, or dropped on it: the input, which is not seen, covers it. */
function makeChooser(words: Words, choose: (file: File) => void): HTMLElement {
  const input = make("input", { type: "file", accept: ".jsonl,.json,.txt" });
  input.addEventListener("change", () => input.files?.[0] && choose(input.files[0]));
  const texts = [make("b", {}, words.choose), ` ${words.drop} `, make("b", {}, words.local)];
  return make("label", { className: "cv-chooser" }, ...texts, input);
}
