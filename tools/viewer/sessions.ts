/** Finds and reads the sessions that can be opened, and lists them. */
import { existsSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { html, type Markup } from "../draw/markup.ts";
import {
  filesIn,
  newestFirst,
  originalOf,
  readSessionFile,
  sessionFiles,
  shownPath,
  subagentsIn,
  userPath,
} from "../sessions/files.ts";
import { whole } from "../sessions/numbers.ts";
import { timelineOf } from "../sessions/read-timeline.ts";
import type { Progress } from "../sessions/recording.ts";
import type { Timeline } from "../sessions/timeline.ts";
import { addressOf } from "./address.ts";
import { sayTotal } from "./answers.ts";
import { counted, timeOf, titleOf } from "./words.ts";

const OWN = [".transcripts", join(".offline", ".transcripts")];
const DEMO = fileURLToPath(new URL("../docs/runs/demo.jsonl", import.meta.url));
const MOST_LISTED = 100; // sessions, not counting subagents
const LARGE = 5_000_000; // bytes

/** Returns the path that the user gave, or else the folders of their own sessions, or else the recorded demo. */
export function placesToSearch(path?: string): string[] {
  if (path !== undefined) return [userPath(path)];
  const own = OWN.filter((folder) => existsSync(folder) && filesIn(folder).length > 0);
  return own.length > 0 ? own : [DEMO];
}

/** Says how many sessions the list has. */
export function countOf(sessions: SessionName[]): string {
  const main = sessions.filter(({ parent }) => !parent).length;
  const children = sessions.length - main;
  const newest = main === MOST_LISTED ? "the newest " : "";
  return `${newest}${counted(main, "session")}${children > 0 ? ` and ${counted(children, "subagent")}` : ""}`;
}

export type SessionName = { file: string; parent?: string };

/** Returns the sessions, newest first, each followed by its subagents. Throws if there are none. */
export function findSessions(places: string[]): SessionName[] {
  const main = newestFirst(places.flatMap(sessionFiles)).slice(0, MOST_LISTED);
  const folders = places.map((place) => (statSync(place).isFile() ? dirname(place) : place));
  const children = folders.flatMap(subagentsIn).filter(({ file }) => !main.includes(file));
  return main.flatMap((file) => [{ file }, ...children.filter(({ parent }) => parent === file)]);
}

/** Remembers what was made of the newest files, until they change. */
function remember<Made>(most: number, make: (file: string) => Made): (file: string) => Made {
  const known = new Map<string, { version: string; made: Made }>();
  return (file) => {
    const { size, mtimeMs } = statSync(file);
    const version = `${size} ${mtimeMs}`;
    const found = known.get(file);
    const made = found?.version === version ? found.made : make(file);
    known.delete(file);
    known.set(file, { version, made });
    if (known.size > most) known.delete([...known.keys()][0] ?? "");
    return made;
  };
}

/** Returns what is in a file, or what's wrong with it. Throws if the file is gone. */
function readSession(file: string): { timeline: Timeline } | { problem: string } {
  const { recording, problem = "can't be read" } = readSessionFile(file, progressOf(file));
  if (!recording) return { problem };
  const timeline = timelineOf(recording);
  return timeline.modelCalls.length > 0 ? { timeline } : { problem: "has no model call" };
}

/** Shows in the terminal how much of a large file has been read. */
function progressOf(file: string): Progress | undefined {
  const { size } = statSync(file);
  if (size < LARGE) return undefined;
  let shown = -1;
  return (share) => {
    const percent = Math.floor(100 * share);
    if (percent === shown) return;
    shown = percent;
    const end = percent === 100 ? "\n" : "";
    process.stdout.write(`\rreading ${shownPath(basename(file))}, ${whole(size / 1e6)} MB: ${percent} %${end}`);
  };
}

export const openSession = remember(3, readSession);

// --- the list --------------------------------------------------------------------------------------------------------

type Row = { name: string; about: string; time: number; isGood: boolean };

const rowOf = remember(1_000, (file): Row => {
  const session = readSession(file); // or a long list would push the open session out
  const { mtimeMs } = statSync(file);
  if ("problem" in session)
    return { name: shownPath(basename(file)), about: session.problem, time: mtimeMs, isGood: false };
  const { timeline } = session;
  const { modelCalls, compactions } = timeline;
  const time = modelCalls.at(-1)?.time ?? mtimeMs;
  const about = [
    timeOf(time),
    counted(modelCalls.length, "call"),
    compactions.length > 0 ? counted(compactions.length, "compaction") : "",
    sayTotal(timeline),
  ];
  return { name: titleOf(timeline), about: about.filter(Boolean).join(" · "), time, isGood: true };
});

const linkTo = (file: string, name: string) => html`<a href="${addressOf({}, file)}">${name}</a>`;

const continues = (original: string) =>
  html` · continues ${linkTo(original, `that of ${timeOf(rowOf(original).time)}`)}, and counts its calls again`;

/** Yields a row for each session as soon as it has been read. */
export function* listRows(sessions: SessionName[]): Generator<Markup> {
  for (const { file, parent } of sessions) {
    const { name, about, isGood } = rowOf(file);
    const original = isGood ? originalOf(file) : undefined;
    const isListed = sessions.some((other) => other.file === original);
    const copied = original && isListed ? continues(original) : "";
    yield html`<p class="${parent ? "child" : ""}">${isGood ? linkTo(file, name) : name}<br><small>${parent ? "subagent · " : ""}${about}${copied}</small></p>\n`;
  }
}
