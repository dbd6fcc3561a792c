/** Mounts the viewer: chooses a session, reads it in a worker and shows it. */
import type { Step, Timeline } from "../trace/timeline.ts";
import { colourRule } from "./context-chart.ts";
import { make, makeButton } from "./elements.ts";
import { type Language, WORDS, type Words } from "./languages.ts";
import { makeSession, type OpenSession } from "./session.ts";
import { makeSessions } from "./sessions-list.ts";
import type { LoadRequest, WorkerReply } from "./worker.ts";

export type ViewerOptions = {
  source?: { name: string; url: string }; // the session to open first
  /** Set by `npm run view`: the file to open first, and whether to open the list of sessions. */
  served?: { file: string; isOpen: boolean };
  lang?: Language;
};

function stepFromAddress(): Step & { file?: string } {
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

/** Shows the viewer in `element`. Returns a function that removes it. */
export function mount(element: HTMLElement, { source, served, lang = "en" }: ViewerOptions) {
  const words = WORDS[lang];
  const status = make("p", { className: "cv-status", role: "status" });
  const title = make(served ? "h1" : "h2"); // the site's page has a heading of its own
  const body = make("div", { className: "cv-session" });
  let file = "";
  let worker: Worker | undefined;

  function loadSession(question: LoadRequest, step?: Step): void {
    let shown: Partial<OpenSession> = { step };
    const showProblem = (reason: string) => {
      status.textContent = reason;
      if (!shown.timeline) body.replaceChildren();
    };
    const showTimeline = (timeline: Timeline, isNew: boolean) => {
      const made = makeSession(timeline, words, (to) => setAddress(to, file), isNew ? { step } : shown);
      const follow = makeButton(() => made.jumpTo({ call: timeline.modelCalls.length - 1 }), words.newest);
      shown = made.shown;
      if (isNew) status.replaceChildren();
      else status.replaceChildren(...(made.isNewest ? [words.following] : [words.grown, follow]));
      keepFocus(body, () => body.replaceChildren(made.element));
    };
    worker?.terminate();
    title.textContent = question.name;
    status.textContent = words.reading(question.name);
    worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    worker.addEventListener("message", ({ data }: MessageEvent<WorkerReply>) => {
      if (!question.isLive) worker?.terminate();
      if ("error" in data) showProblem(words.unreadable(question.name, data.error));
      else if (data.modelCalls.length === 0) showProblem(words.nothing(question.name));
      else showTimeline(data, data.isNew);
    });
    worker.postMessage(question);
  }
  /** Opens a file that `npm run view` serves, and follows it. */
  function openServed(name: string, step?: Step): void {
    file = name;
    const url = new URL(`session?${new URLSearchParams({ file })}`, document.baseURI).href;
    loadSession({ name: file.split(/[\\/]/).at(-1) ?? "", url, isLive: true }, step);
  }
  const openChosen = (chosen: File) => {
    file = "";
    loadSession({ name: chosen.name, file: chosen });
  };
  const chooser = makeChooser(words, openChosen);
  const sessions = served && makeSessions(words, served.isOpen, () => file, openServed);
  sessions?.append(chooser);
  const parts = [make("style", {}, colourRule), sessions ?? chooser, title, status, body];
  element.replaceChildren(make("section", { className: "context-viewer", lang }, ...parts));
  const address = stepFromAddress();
  if (served) openServed(address.file ?? served.file, address);
  else if (source) loadSession({ ...source, url: new URL(source.url, document.baseURI).href }, address);
  return () => {
    worker?.terminate();
    element.replaceChildren();
  };
}

const labelOf = (element: Element | null) => element?.ariaLabel || element?.textContent;

/** Makes a change and returns the focus to the element with the same label. */
function keepFocus(element: HTMLElement, change: () => void): void {
  const label = element.contains(document.activeElement) && labelOf(document.activeElement);
  change();
  const all = [...element.querySelectorAll<HTMLElement>("input, button, pre")];
  if (label) all.find((each) => labelOf(each) === label)?.focus({ preventScroll: true });
}

/** An invisible file input covers the label, so it takes dropped files as well. */
function makeChooser(words: Words, openChosen: (file: File) => void): HTMLElement {
  const input = make("input", { type: "file", accept: ".jsonl,.json,.txt" });
  input.addEventListener("change", () => input.files?.[0] && openChosen(input.files[0]));
  const texts = [make("b", {}, words.choose), words.drop, make("b", {}, words.local)];
  return make("label", { className: "cv-chooser" }, ...texts, input);
}
