/** Reads a session aside, so that the page stays usable meanwhile, and again whenever its file changes. */
import { readTimeline } from "./read-timeline.ts";
import type { Fault, Timeline } from "./timeline.ts";

/** A file that was chosen or dropped, or where to get one. `isLive`: it is asked for again, each second. */
export type Question = { name: string; file?: Blob; url?: string; isLive?: boolean };
/** `isNew`: it does not go on where the file ended before. */
export type Answer = ((Timeline | Fault) & { isNew: boolean }) | { error: string } | { stopped: true };

async function answer({ name, file, url = "", isLive }: Question): Promise<void> {
  let known = "";
  try {
    for (let tag = ""; ; ) {
      const source =
        file ?? (await fetch(url, isLive ? { headers: tag ? { "if-none-match": tag } : {}, cache: "no-store" } : {}));
      if (source instanceof Response && source.status !== 304) {
        if (!source.ok) throw new Error(`HTTP status ${source.status}`);
        tag = source.headers.get("etag") ?? "";
      }
      if (!(source instanceof Response) || source.status !== 304) {
        const text = await source.text();
        postMessage({ ...readTimeline(text, name), isNew: known === "" || !text.startsWith(known) } satisfies Answer);
        known = text;
      }
      if (!isLive) return;
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    postMessage((known ? { stopped: true } : { error: reason }) satisfies Answer);
  }
}

self.addEventListener("message", ({ data }: MessageEvent<Question>) => void answer(data));
