/** Mounts the viewer: chooses a session, reads it in a worker and shows it. */
import type { Timeline } from "../trace/timeline.ts";
import { addressOf, type Selection, selectionIn } from "./address.ts";
import { colourRule } from "./context-chart.ts";
import { make } from "./elements.ts";
import { type Language, WORDS, type Words } from "./languages.ts";
import { makeSession } from "./session.ts";
import { makeSessions, type Served } from "./sessions-list.ts";
import type { LoadRequest, WorkerReply } from "./worker.ts";

export type ViewerOptions = {
  source?: { name: string; url: string }; // the session to open first
  served?: Served;
  lang?: Language;
};

/** Shows the viewer in `element`. Returns a function that removes it. */
export function mount(element: HTMLElement, { source, served, lang = "en" }: ViewerOptions) {
  const words = WORDS[lang];
  const status = make("p", { className: "cv-status", role: "status" });
  const title = make(served ? "h1" : "h2"); // the site's page has a heading of its own
  const body = make("div", { className: "cv-session" });
  let file: string | undefined;
  let session: ReturnType<typeof makeSession> | undefined;
  let worker: Worker | undefined;

  const addresses = {
    addressOf: (selection: Selection) => addressOf(selection, file),
    go: (selection: Selection, to = file) => {
      location.hash = addressOf(selection, to);
    },
    replace: (selection: Selection, isNew: boolean) => {
      history[isNew ? "pushState" : "replaceState"](null, "", addressOf(selection, file));
    },
  };

  function showTimeline(timeline: Timeline, isNew: boolean, selection: Selection): void {
    const before = isNew ? undefined : session;
    const now = before?.shownNow();
    const newest = { call: timeline.modelCalls.length - 1 };
    const isFollowing = before !== undefined && now?.call === before.newest;
    if (isFollowing) addresses.replace(newest, false);
    status.textContent = "";
    const made = makeSession(timeline, words, addresses, (isFollowing ? newest : now) ?? selection);
    keepPlace(body, () => body.replaceChildren(made.element));
    session = made;
  }
  function loadSession(question: LoadRequest, selection: Selection): void {
    const { name, isLive } = question;
    let isShown = false;
    const showProblem = (reason: string) => {
      status.textContent = reason;
      if (!isShown) body.replaceChildren();
    };
    const showReply = (data: Exclude<WorkerReply, { progress: number }>) => {
      if (!isLive) worker?.terminate();
      if ("error" in data) showProblem(words.unreadable(name, data.error));
      else if (data.modelCalls.length === 0) showProblem(words.nothing(name));
      else {
        showTimeline(data, data.isNew, selection);
        isShown = true;
      }
    };
    worker?.terminate();
    title.textContent = name;
    status.textContent = words.reading(name);
    worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    worker.addEventListener("message", ({ data }: MessageEvent<WorkerReply>) => {
      if ("progress" in data) status.textContent = words.progress(data.bytes, data.progress);
      else showReply(data);
    });
    worker.postMessage(question);
  }
  /** Opens a file that `npm run view` serves, and follows it. */
  function openServed({ opened, file: first }: Served, name: string, selection: Selection): void {
    file = name;
    const url = new URL(`session?${new URLSearchParams({ file })}`, document.baseURI).href;
    const fileName = file.split(/[\\/]/).at(-1) ?? "";
    loadSession({ name: words.opened[file === first ? opened : "file"](fileName), url, isLive: true }, selection);
  }
  function openChosen(chosen: File): void {
    addresses.replace({}, true);
    loadSession({ name: chosen.name, file: chosen }, {});
  }
  function followAddress(): void {
    const { file: asked = served?.file, ...selection } = selectionIn(location.hash);
    if (served && asked && asked !== file) openServed(served, asked, selection);
    else session?.follow(selection);
  }
  const sessions = served && makeSessions(words, served, (name) => addresses.go({}, name));
  const chooser = served ? "" : makeChooser(words, openChosen);
  const parts = [make("style", {}, colourRule), sessions ?? chooser, title, status, body];
  element.replaceChildren(make("section", { className: "context-viewer", lang }, ...parts));
  if (served) followAddress();
  else if (source)
    loadSession({ ...source, url: new URL(source.url, document.baseURI).href }, selectionIn(location.hash));
  window.addEventListener("hashchange", followAddress);
  return () => {
    window.removeEventListener("hashchange", followAddress);
    worker?.terminate();
    element.replaceChildren();
  };
}

const labelOf = (element: Element | null) => element?.ariaLabel || element?.textContent;

/** Makes a change, scrolls the open text to where it was, and returns the focus to the element with the same label. */
function keepPlace(element: HTMLElement, change: () => void): void {
  const label = element.contains(document.activeElement) && labelOf(document.activeElement);
  const top = element.querySelector("pre")?.scrollTop;
  change();
  element.querySelector("pre")?.scrollTo({ top });
  const all = [...element.querySelectorAll<HTMLElement>("input, button, a, pre")];
  if (label) all.find((each) => labelOf(each) === label)?.focus({ preventScroll: true });
}

/** The input is large, so that files can be dropped on it. */
function makeChooser(words: Words, openChosen: (file: File) => void): HTMLElement {
  const input = make("input", { type: "file", accept: ".jsonl,.json,.txt" });
  input.addEventListener("change", () => input.files?.[0] && openChosen(input.files[0]));
  return make("label", { className: "cv-chooser" }, words.choose, input);
}
