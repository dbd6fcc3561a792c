/** Runs a lesson on the local Messages API. */
import { type Model, startServer } from "./api/server.ts";
import { rehearse } from "./model.ts";
import { lessonFile, runLesson, type Start } from "./start.ts";

/** Runs a lesson to its end. Returns its exit code and its model calls. */
export async function runOffline(name: string, args: string[], start: Start, model: Model = rehearse) {
  const server = await startServer({ model });
  const code = await runLesson(lessonFile(name), args, { ...start, url: server.url });
  await server.close();
  return { code, journal: server.journal };
}
