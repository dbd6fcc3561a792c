/** Reads a session aside, so that the page stays usable meanwhile. */
import type { Fault, Timeline } from "./model.ts";
import { readTimeline } from "./timeline.ts";

/** A file that was chosen or dropped, or where to get one. */
export type Question = { name: string; file?: Blob; text?: string; url?: string };
export type Answer = Timeline | Fault | { error: string };

async function answer({ name, file, text, url }: Question): Promise<Answer> {
  try {
    if (text !== undefined) return readTimeline(text, name);
    if (file) return readTimeline(await file.text(), name);
    const response = await fetch(url ?? "");
    if (!response.ok) return { error: `HTTP status ${response.status}` };
    return readTimeline(await response.text(), name);
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

self.addEventListener("message", async ({ data }: MessageEvent<Question>) => postMessage(await answer(data)));
