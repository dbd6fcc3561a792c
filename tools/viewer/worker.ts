/** Reads sessions in a worker, so that the page stays responsive, and reads a file again when it changes. */
import { readTimeline } from "../trace/read-timeline.ts";
import type { Timeline } from "../trace/timeline.ts";

/** A chosen file or an address. With `isLive`, the address is fetched again every second. */
export type LoadRequest = { name: string; file?: Blob; url?: string; isLive?: boolean };
/** `isNew` means that this isn't a longer version of the same file. `progress` is a share of the work, until a timeline is there. */
export type WorkerReply = (Timeline & { isNew: boolean }) | { progress: number; bytes: number } | { error: string };

let known: string | undefined;
let etag = ""; // of the version that is known
let reported = 0;

/** Says how far the first reading is, percent by percent. The first half of the work is to get the text, the second to parse it. */
function report(progress: number, bytes: number): void {
  if (known !== undefined || progress < reported + 0.01) return;
  reported = progress;
  postMessage({ progress, bytes } satisfies WorkerReply);
}

function postTimeline(text: string, bytes: number): void {
  if (text === known) return;
  const isNew = known === undefined || !text.startsWith(known);
  const timeline = readTimeline(text, (share) => report((1 + share) / 2, bytes));
  known = text;
  postMessage({ ...timeline, isNew } satisfies WorkerReply);
}

async function readBody(body: ReadableStream<Uint8Array<ArrayBuffer>>, bytes: number): Promise<void> {
  const decoder = new TextDecoder();
  const parts: string[] = [];
  let done = 0;
  for await (const part of body) {
    parts.push(decoder.decode(part, { stream: true }));
    done += part.length;
    report(done / bytes / 2, bytes);
  }
  postTimeline(parts.join("") + decoder.decode(), bytes);
}

async function fetchSession(url: string): Promise<void> {
  const response = await fetch(url, { cache: "no-store", headers: { "if-none-match": etag } });
  if (response.status === 304) return;
  if (!response.ok || !response.body) throw new Error(`HTTP status ${response.status}`);
  etag = response.headers.get("etag") ?? "";
  await readBody(response.body, Number(response.headers.get("content-length")));
}

async function answerQuestion({ file, url = "", isLive }: LoadRequest): Promise<void> {
  await (file ? readBody(file.stream(), file.size) : fetchSession(url));
  while (isLive) {
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    await fetchSession(url);
  }
}

self.addEventListener("message", ({ data }: MessageEvent<LoadRequest>) => {
  answerQuestion(data).catch((error: Error) => postMessage({ error: error.message } satisfies WorkerReply));
});
