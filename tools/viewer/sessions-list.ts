/** The list of sessions that `npm run view` offers. */

import { facts } from "../trace/numbers.ts";
import { make, makeRows, setTabStop } from "./elements.ts";
import type { Words } from "./languages.ts";

/** A row of the list. */
export type Listed = {
  file: string;
  /** The session that a subagent's file belongs to. */
  parent?: string;
  /** Why the file can't be shown, or where it breaks off. */
  problem?: string;
  /** Milliseconds. */
  time: number;
  /** The user's first request. */
  request: string;
  calls: number;
  compactions: number;
};

/** Reads the sessions when the list is first opened, and shows each as soon as it arrives. */
export function makeSessions(words: Words, isOpen: boolean, current: () => string, choose: (file: string) => void) {
  const list = make("ul", { className: "cv-rows cv-sessions" }, words.reading(words.sessions));
  const summary = make("summary", {}, words.sessions);
  const element = make("details", { open: isOpen }, summary, list);
  let text = "";
  const select = (file: string) => {
    element.open = false;
    choose(file);
  };
  function fill(): void {
    const lines = text.split("\n").slice(0, -1);
    const listed = lines.map((line): Listed => JSON.parse(line));
    summary.textContent = `${words.sessions} (${listed.length})`;
    list.replaceChildren(...makeItems(listed, words, current(), select));
  }
  async function fetchRows(): Promise<void> {
    const { body } = await fetch("sessions");
    for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += part;
      fill();
    }
  }
  element.addEventListener("toggle", () => {
    if (text) fill();
    else if (element.open) void fetchRows();
  });
  list.addEventListener("keydown", (event) => moveFocus(list, event));
  return element;
}

function makeItems(listed: Listed[], words: Words, current: string, select: (file: string) => void): Element[] {
  const describe = ({ parent, problem, time, calls, compactions }: Listed) =>
    facts(parent && words.ofSubagent, problem, words.time(time), calls > 0 ? words.counts(calls, compactions) : "");
  const rows = makeRows(
    listed,
    (each) => [each.request || each.file, describe(each)],
    ({ file }) => select(file),
  );
  const buttons = [...rows.getElementsByTagName("button")];
  const chosen = buttons[listed.findIndex(({ file }) => file === current)];
  chosen?.setAttribute("aria-current", "true");
  setTabStop(buttons, chosen);
  return [...rows.children];
}

function moveFocus(list: HTMLElement, event: KeyboardEvent): void {
  const to = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (!to) return;
  event.preventDefault();
  const from = [...list.children].findIndex((row) => row.contains(document.activeElement));
  list.children[from + to]?.querySelector("button")?.focus();
}
