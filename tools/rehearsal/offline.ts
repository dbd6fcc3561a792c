/** Runs a lesson on the local Messages API with the rehearsal model. */
import { type Model, startServer } from "../api/server.ts";
import { lessonFile, runLesson } from "../lesson/start.ts";
import { rehearse } from "./model.ts";

type Run = {
  /** The lesson's workspace. */
  folder: string;
  model?: Model;
  env?: NodeJS.ProcessEnv;
  /** Whether to hide what the lesson prints. */
  isSilent?: boolean;
};

/** Runs a lesson to its end. Returns its exit code and its model calls. */
export async function runOffline(name: string, args: string[], { folder, model = rehearse, env, isSilent }: Run) {
  const server = await startServer({ model });
  const code = await runLesson(lessonFile(name), args, {
    cwd: folder,
    url: server.url,
    env,
    stdio: ["inherit", isSilent ? "ignore" : "inherit", "inherit"],
  });
  await server.close();
  return { code, journal: server.journal };
}
