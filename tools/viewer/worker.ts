/** Reads sessions in a worker, so that the page stays responsive, and reads a file again when it changes. */
import { readTimeline } from "../trace/read-timeline.ts";
import type { Timeline } from "../trace/timeline.ts";

/** A chosen file or an address. With `isLive`, the address is fetched again every second. */
export type LoadRequest = { name: string; file?: Blob; url?: string; isLive?: boolean };
/** `isNew` means that this isn't a longer version of the same file. */
export type WorkerReply = (Timeline & { isNew: boolean }) | { error: string };

let known: string | undefined;
function postTimeline(text: string): void {
  if (text === known) return;
  const isNew = known === undefined || !text.startsWith(known);
  known = text;
  postMessage({ ...readTimeline(text), isNew } satisfies WorkerReply);
}

async function fetchText(url: string): Promise<string> {
  const response = await fetch(url, { cache: "no-cache" }); // the browser checks whether its copy is still current
  if (!response.ok) throw new Error(`HTTP status ${response.status}`);
  return response.text();
}

async function answerQuestion({ file, url = "", isLive }: LoadRequest): Promise<void> {
  postTimeline(file ? await file.text() : await fetchText(url));
  while (isLive) {
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    postTimeline(await fetchText(url));
  }
}

self.addEventListener("message", ({ data }: MessageEvent<LoadRequest>) => {
  answerQuestion(data).catch((error: Error) => postMessage({ error: error.message } satisfies WorkerReply));
});
