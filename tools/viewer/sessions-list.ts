/** The sessions of `npm run view`, to choose from. */

import { facts } from "../trace/numbers.ts";
import { make, makeRows, setTabStop } from "./elements.ts";
import type { Words } from "./languages.ts";

/** What the list shows of a file. Times are milliseconds. */
export type Listed = {
  file: string;
  /** Of a subagent's file, which comes after its parent: the session that it belongs to. */
  parent?: string;
  time: number;
  /** The first one. */
  request: string;
  calls: number;
  compactions: number;
};

/** They are read when the list is first opened; each is there as soon as it is read. `current`: the file that is shown. */
export function makeSessions(words: Words, isOpen: boolean, current: () => string, choose: (file: string) => void) {
  const list = make("ul", { className: "cv-rows cv-sessions" }, words.reading(words.sessions));
  const summary = make("summary", {}, words.sessions);
  const element = make("details", { open: isOpen }, summary, list);
  let text = "";
  const select = (file: string) => {
    element.open = false;
    choose(file);
  };
  function show(): void {
    const lines = text.split("\n").slice(0, -1);
    const listed = lines.map((line): Listed => JSON.parse(line));
    summary.textContent = `${words.sessions} (${listed.length})`;
    list.replaceChildren(...makeItems(listed, words, current(), select));
  }
  async function read(): Promise<void> {
    const { body } = await fetch("sessions");
    for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += part;
      show();
    }
  }
  element.addEventListener("toggle", () => {
    if (text) show();
    else if (element.open) void read();
  });
  list.addEventListener("keydown", (event) => step(list, event));
  return element;
}

function makeItems(listed: Listed[], words: Words, current: string, select: (file: string) => void): Element[] {
  const factsOf = ({ parent, time, calls, compactions }: Listed) =>
    facts(parent && words.ofSubagent, words.time(time), words.counts(calls, compactions));
  const rows = makeRows(
    listed,
    (each) => [each.request || each.file, factsOf(each)],
    ({ file }) => select(file),
  );
  const buttons = [...rows.getElementsByTagName("button")];
  const chosen = buttons[listed.findIndex(({ file }) => file === current)];
  chosen?.setAttribute("aria-current", "true");
  setTabStop(buttons, chosen);
  return [...rows.children];
}

function step(list: HTMLElement, event: KeyboardEvent): void {
  const to = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (!to) return;
  event.preventDefault();
  const from = [...list.children].findIndex((row) => row.contains(document.activeElement));
  list.children[from + to]?.querySelector("button")?.focus();
}
