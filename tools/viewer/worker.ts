/** Reads a session aside, so that the page stays usable meanwhile, and again whenever its file changes. */
import { readTimeline } from "../trace/read-timeline.ts";
import type { Timeline } from "../trace/timeline.ts";

/** A file that was chosen or dropped, or where to get one. `isLive`: it is asked for again, each second. */
export type Question = { name: string; file?: Blob; url?: string; isLive?: boolean };
/** `isNew`: it does not go on where the file ended before. */
export type Answer = (Timeline & { isNew: boolean }) | { error: string };

let known: string | undefined;
function tell(text: string): void {
  if (text === known) return;
  const isNew = known === undefined || !text.startsWith(known);
  known = text;
  postMessage({ ...readTimeline(text), isNew } satisfies Answer);
}

async function textAt(url: string): Promise<string> {
  const response = await fetch(url, { cache: "no-cache" }); // the browser asks whether its copy is still right
  if (!response.ok) throw new Error(`HTTP status ${response.status}`);
  return response.text();
}

async function answer({ file, url = "", isLive }: Question): Promise<void> {
  tell(file ? await file.text() : await textAt(url));
  while (isLive) {
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    tell(await textAt(url));
  }
}

self.addEventListener("message", ({ data }: MessageEvent<Question>) => {
  answer(data).catch((error: Error) => postMessage({ error: error.message } satisfies Answer));
});
