/** Chooses the sessions to replay, and says what was left out. */
import { readSessions, roundsIn, type Session, untilWindow } from "./turns.ts";

export const MOST_SESSIONS = 10;
export const LEAST_ROUNDS = 10;
/** The rounds of all sessions together. Four strategies take less than a minute on two cores. */
export const ROUND_BUDGET = 600;

/** `notes` say what was left out. */
type Chosen = { sessions: Session[]; notes: string[] };

/** Returns the newest sessions, at least one, as far as the window and the budget allow. */
export function newestOf(paths: string[], budget = ROUND_BUDGET): Chosen {
  const found = readAll(paths, MOST_SESSIONS, LEAST_ROUNDS);
  const size = `the newest ${MOST_SESSIONS} of ${LEAST_ROUNDS} rounds or more`;
  const notes = [`${size}; --all takes every session, whole`, ...found.notes];
  const sessions: Session[] = [];
  let rounds = 0;
  for (const session of found.sessions) {
    const part = untilWindow(session);
    rounds += roundsIn(part);
    if (sessions.length > 0 && rounds > budget) break;
    sessions.push(part);
    if (roundsIn(part) < roundsIn(session)) notes.push(`${session.name} ends where 200,000 tokens are full`);
  }
  const left = found.sessions.slice(sessions.length).map(({ name }) => name);
  if (left.length > 0) notes.push(`left out, since ${budget} rounds are enough: ${left.join(", ")}`);
  return { sessions, notes };
}

/** Returns all sessions, whole, in the order of their names. */
export function allOf(paths: string[]): Chosen {
  const { sessions, notes } = readAll(paths);
  return { sessions: sessions.sort((a, b) => a.name.localeCompare(b.name)), notes };
}

function readAll(paths: string[], most?: number, rounds?: number): Chosen {
  const read = paths.map((path) => readSessions(path, most, rounds));
  return { sessions: read.flatMap(({ sessions }) => sessions), notes: read.flatMap(({ problems }) => problems) };
}

/** Says what was changed in the sessions to make them replayable. */
export function changesIn(sessions: Session[]): string[] {
  const counts = new Map<string, number>();
  for (const [reason, count] of sessions.flatMap(({ skipped }) => Object.entries(skipped)))
    counts.set(reason, (counts.get(reason) ?? 0) + count);
  const changes = [...counts].map(([reason, count]) => `${count} × ${reason}`).join(", ");
  return changes ? [`left out or completed: ${changes}`] : [];
}
