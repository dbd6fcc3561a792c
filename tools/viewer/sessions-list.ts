/** The sessions of a folder, to choose from. */
import { make } from "./elements.ts";
import type { Words } from "./languages.ts";

/** What the list shows of a file. Times are milliseconds. */
export type Listed = {
  file: string;
  /** Of a subagent's file: the session that it belongs to. */
  parent?: string;
  time: number;
  /** The first one. */
  request: string;
  calls: number;
  compactions: number;
  bytes: number;
};

/** One tab stop; the arrow keys go from row to row. @param current the file that is shown */
export function makeSessions(listed: Listed[], words: Words, current: string, open: (file: string) => void) {
  const rowsOf = (each: Listed): HTMLElement[] => {
    const { file, parent, request, time } = each;
    const button = make("button", { type: "button" }, request || file);
    button.addEventListener("click", () => open(file));
    if (file === current) button.ariaCurrent = "true";
    const facts = [
      ...(parent ? [words.ofSubagent] : []),
      words.time(time),
      words.listed(each.calls, each.compactions, each.bytes),
    ].join(" · ");
    const row = make("li", { className: parent ? "cv-child" : "", title: file }, button);
    row.append(make("span", { className: "cv-quiet" }, facts));
    return [row, ...listed.filter((child) => child.parent === file).flatMap(rowsOf)];
  };
  const files = new Set(listed.map(({ file }) => file));
  const top = listed.filter(({ parent }) => !parent || !files.has(parent));
  const list = make("ul", { className: "cv-sessions" }, ...top.flatMap(rowsOf));
  const buttons = [...list.querySelectorAll("button")];
  const stop = buttons.find((button) => button.ariaCurrent) ?? buttons[0];
  for (const button of buttons) button.tabIndex = button === stop ? 0 : -1;
  list.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    buttons[buttons.indexOf(document.activeElement as HTMLButtonElement) + step]?.focus();
  });
  return list;
}
