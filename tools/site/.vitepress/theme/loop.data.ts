/** The loop of s01, and its recorded run in steps. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createMarkdownRenderer, type SiteConfig } from "vitepress";
import { readLessons } from "../../../lesson/source.ts";
import { type Message, textOf } from "../../../trace/events.ts";
import { readRecording } from "../../../trace/recording.ts";
import { ROOT } from "../files.ts";

/** A message as the figures in the pages show it. */
type Shown = { who: "user" | "assistant" | "result"; text: string };
/** What runs: `line` counts from 0, and `messages` have been added by then. */
export type Step = {
  says: "start" | "call" | "reply" | "goes on" | "ends" | "run" | "results";
  line: number;
  messages: number;
};
export type Loop = { lines: string[]; steps: Step[]; messages: Shown[] };
declare const data: Loop;

export { data };

function show({ role, blocks }: Message): Shown {
  const texts = blocks.map((block) => {
    if (block.kind === "call") return `${block.call.name} ${Object.values(block.call.input)[0]}`;
    return block.kind === "thinking" ? "" : textOf(block);
  });
  const isResult = blocks.some(({ kind }) => kind === "result");
  return { who: isResult ? "result" : role, text: texts.filter(Boolean).join("\n") };
}

export default {
  watch: ["../../../../agents/*.ts", "../../../docs/runs/s01.jsonl"],
  async load(): Promise<Loop> {
    const script = readLessons(ROOT).get("s01")?.lines.join("\n") ?? "";
    const [loop = ""] = /^ {2}while \(true\).*?^ {2}\}/ms.exec(script) ?? [];
    const code = loop.replace(/^ {2}/gm, "").replace(/ +\/\/.*$/gm, "");
    const { srcDir, markdown } = (globalThis as unknown as { VITEPRESS_CONFIG: SiteConfig }).VITEPRESS_CONFIG;
    const { options } = await createMarkdownRenderer(srcDir, markdown);
    const html = (await options.highlight?.(code, "ts", "")) ?? "";
    const lines = html.split("\n").map((line) => /<span class="line">(.*)<\/span>/.exec(line)?.[1] ?? "");
    const at = (text: string) => {
      const line = code.split("\n").findIndex((each) => each.includes(text));
      if (line < 0) throw new Error(`the loop of s01 has no line with ${text}`);
      return line;
    };
    const { events } = readRecording(readFileSync(join(ROOT, "tools/docs/runs/s01.jsonl"), "utf8"));
    const messages = events.flatMap((event) => (event.type === "message" && event.by !== "setup" ? show(event) : []));
    const steps: Step[] = [{ says: "start", line: 0, messages: 1 }];
    for (let added = 1; added < messages.length; added += 2) {
      const isLast = added + 1 === messages.length;
      steps.push({ says: "call", line: at("await callModel"), messages: added });
      steps.push({ says: "reply", line: at("content: reply.content"), messages: added + 1 });
      steps.push({ says: isLast ? "ends" : "goes on", line: at("return reply"), messages: added + 1 });
      if (isLast) break;
      steps.push({ says: "run", line: at("runCall"), messages: added + 1 });
      steps.push({ says: "results", line: at("content: results"), messages: added + 2 });
    }
    return { lines, steps, messages };
  },
};
