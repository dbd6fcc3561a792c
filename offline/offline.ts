/** Runs a lesson on the local Messages API. */
import { appendFileSync } from "node:fs";
import { startServer } from "./api/server.ts";
import { rehearse } from "./model.ts";
import { lessonFile, runLesson, type Start } from "./start.ts";
import { fillScratch, SCRATCH } from "./world.ts";

type Settings = Parameters<typeof startServer>[0];

/** Runs a lesson in the scratch folder to its end. Returns its exit code and its model calls. */
export async function runOffline(lesson: string, args: string[], start: Start = {}, settings: Settings = {}) {
  const { CONTEXT_WINDOW } = start.env ?? process.env;
  const contextLimit = toNumber("CONTEXT_WINDOW", CONTEXT_WINDOW || "200000");
  fillScratch();
  const server = await startServer({ model: rehearse, contextLimit, ...settings });
  const code = await runLesson(lessonFile(lesson), args, { ...start, cwd: SCRATCH, url: server.url });
  await server.close();
  const { journal } = server;
  const { OFFLINE_JOURNAL: file } = process.env; // where the tools want to find it
  if (file) appendFileSync(file, journal.map((entry) => `${JSON.stringify({ lesson, ...entry })}\n`).join(""));
  return { code, journal };
}

/** @throws if the value of a setting isn't a whole number above zero */
export function toNumber(name: string, value: string): number {
  if (!/^[1-9]\d*$/.test(value)) throw new Error(`${name} needs a whole number such as 32000, not ${value}`);
  return Number(value);
}
