/** Chooses what is replayed, and says what is left out. */
import { readSessions, roundsIn, type Session, untilWindow } from "./turns.ts";

export const MOST = 10; // sessions
export const SHORTEST = 10; // rounds of a session
export const BUDGET = 600; // rounds of all sessions together: four strategies take less than a minute on two cores

/** `notes`: what is left out. */
type Chosen = { sessions: Session[]; notes: string[] };

/** The newest sessions, as far as a window holds each, and the budget all of them; one there is always. */
export function newestOf(paths: string[], budget = BUDGET): Chosen {
  const found = paths.flatMap((path) => readSessions(path, MOST, SHORTEST));
  const sessions: Session[] = [];
  const notes = [`the newest ${MOST} of ${SHORTEST} rounds or more; --all takes every session, whole`];
  let rounds = 0;
  for (const session of found) {
    const part = untilWindow(session);
    rounds += roundsIn(part);
    if (sessions.length > 0 && rounds > budget) break;
    sessions.push(part);
    if (roundsIn(part) < roundsIn(session)) notes.push(`${session.name} ends where 200,000 tokens are full`);
  }
  const left = found.slice(sessions.length).map(({ name }) => name);
  if (left.length > 0) notes.push(`left out, as ${budget} rounds are enough: ${left.join(", ")}`);
  return { sessions, notes };
}

/** All sessions, whole, in the order of their names. */
export function allOf(paths: string[]): Chosen {
  const sessions = paths.flatMap((path) => readSessions(path));
  return { sessions: sessions.sort((a, b) => a.name.localeCompare(b.name)), notes: [] };
}

/** What was changed in the sessions, so that they can be replayed. */
export function changesIn(sessions: Session[]): string[] {
  const notes: string[] = [];
  const untimed = sessions.filter(({ isTimed }) => !isTimed).length;
  if (untimed > 0) notes.push(`${untimed} have no times: their pauses are drawn, as long as real ones`);
  const counts = new Map<string, number>();
  for (const [what, count] of sessions.flatMap(({ skipped }) => Object.entries(skipped)))
    counts.set(what, (counts.get(what) ?? 0) + count);
  if (counts.size > 0)
    notes.push(`left out or completed: ${[...counts].map(([what, count]) => `${count} × ${what}`).join(", ")}`);
  return notes;
}
