/** Finds and reads the sessions that can be opened, and lists them. */
import { existsSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { html, type Markup } from "../draw/markup.ts";
import { filesIn, newestFirst, readSessionFile, sessionFiles, subagentsIn, userPath } from "../sessions/files.ts";
import { whole } from "../sessions/numbers.ts";
import { timelineOf } from "../sessions/read-timeline.ts";
import type { Timeline } from "../sessions/timeline.ts";
import { addressOf } from "./address.ts";
import { totalCost } from "./answers.ts";
import { counted, dollars, labelOf, timeOf } from "./words.ts";

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

/** Returns the timeline of a file, or what's wrong with it. Throws if the file is gone. */
function readSession(file: string): { timeline: Timeline } | { problem: string } {
  const { size } = statSync(file);
  if (size > LARGE) console.log(`reading ${basename(file)}, ${whole(size / 1e6)} MB …`);
  const { recording, problem = "can't be read" } = readSessionFile(file);
  if (!recording) return { problem };
  const timeline = timelineOf(recording);
  return timeline.modelCalls.length > 0 ? { timeline } : { problem: "has no model call" };
}

export const openSession = remember(3, readSession);

// --- the list --------------------------------------------------------------------------------------------------------

type Row = { name: string; about: string; isGood: boolean };

const rowOf = remember(1_000, (file): Row => {
  const session = readSession(file); // or a long list would push the open session out
  if ("problem" in session) return { name: basename(file), about: session.problem, isGood: false };
  const { timeline } = session;
  const { modelCalls, compactions, requests } = timeline;
  const cost = totalCost(timeline);
  const about = [
    timeOf(modelCalls.at(-1)?.time ?? statSync(file).mtimeMs),
    counted(modelCalls.length, "call"),
    compactions.length > 0 ? counted(compactions.length, "compaction") : "",
    cost === undefined ? "" : dollars(cost),
  ];
  const name = requests[0] ? labelOf(requests[0].block) : basename(file);
  return { name, about: about.filter(Boolean).join(" · "), isGood: true };
});

/** Yields a row for each session as soon as it has been read. */
export function* listRows(sessions: SessionName[]): Generator<Markup> {
  for (const { file, parent } of sessions) {
    const { name, about, isGood } = rowOf(file);
    const link = isGood ? html`<a href="${addressOf({}, file)}">${name}</a>` : name;
    yield html`<p class="${parent ? "child" : ""}">${link}<br><small>${parent ? "subagent · " : ""}${about}</small></p>\n`;
  }
}
