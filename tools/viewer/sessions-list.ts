/** The list of sessions that `npm run view` offers. */
import { make, makeRows } from "./elements.ts";
import { dollars, facts } from "./format.ts";
import type { Words } from "./languages.ts";

/** Set by `npm run view`: the file to open first, how it was found, and how many sessions there are to list. */
export type Served = { file: string; opened: keyof Words["opened"]; count: number; isOpen: boolean };
export type ListedSession = {
  file: string;
  parent?: string; // the session that a subagent's file belongs to
  problem?: string; // why the file can't be shown, or where it breaks off
  time: number; // milliseconds
  request: string; // the user's first request
  calls: number;
  compactions: number;
  dollars?: number;
};

const ROW = 44; // pixels
const MOST_ROWS = 7; // the others are scrolled to

/** Reads the sessions when the list is first opened, and shows each as soon as it arrives. A single one needs no list. */
export function makeSessions(words: Words, { count, isOpen }: Served, choose: (file: string) => void) {
  const list = make("ul", { className: "cv-rows" }, words.reading(words.sessions));
  const summary = make("summary", {}, `${words.sessions} (${count})`);
  const element = make("details", { className: "cv-sessions", open: isOpen, hidden: count < 2 }, summary, list);
  list.style.minHeight = `${ROW * Math.min(count, MOST_ROWS)}px`; // also before they are read, so that nothing jumps
  let text = "";
  const select = (file: string) => {
    element.open = false;
    choose(file);
  };
  function fill(): void {
    const lines = text.split("\n").slice(0, -1);
    const listed = sortByTime(lines.map((line): ListedSession => JSON.parse(line)));
    list.replaceChildren(...makeItems(listed, words, select));
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
    else if (element.open && !element.hidden) void fetchRows();
  });
  return element;
}

/** Sorts by the time that a row shows. Subagents stay below their session. */
function sortByTime(listed: ListedSession[]): ListedSession[] {
  const times = new Map(listed.map(({ file, time }) => [file, time]));
  const sortTimeOf = ({ file, parent = file, time }: ListedSession) => times.get(parent) ?? time;
  return listed.sort((a, b) => sortTimeOf(b) - sortTimeOf(a));
}

function makeItems(listed: ListedSession[], words: Words, select: (file: string) => void): Element[] {
  const textsFor = ({ file, parent, problem, request, time, calls, compactions, ...each }: ListedSession) => {
    const counts = calls > 0 ? words.counts(calls, compactions) : "";
    const about = facts(parent && words.ofSubagent, problem, dollars(each.dollars), words.time(time), counts);
    return [request || file, about];
  };
  return [...makeRows(listed, textsFor, ({ file }) => select(file)).children];
}
