/** Names blocks where they're shown. Nothing is found or grouped by these names. */
import { type Block, textOf, withoutTags } from "../trace/events.ts";
import type { Words } from "./languages.ts";
import type { Series } from "./series.ts";

const LONGEST = 300; // characters

const headline = (text: string): string => text.trimStart().slice(0, LONGEST).split("\n", 1)[0] ?? "";

/** Names a call or its result after the tool and the first text among the arguments. */
export function labelOf(block: Block): string {
  if (block.kind === "file") return headline(block.path);
  if (block.kind === "request") return headline(withoutTags(block.text) || block.text);
  if (block.kind === "client") return headline(block.text.replace(/^\s*<([a-z-]+)[^>]*>\s*/, "$1: "));
  if (block.kind !== "call" && block.kind !== "result") return headline(textOf(block));
  const { name, input } = block.call;
  const argument = Object.values(input).find((value) => typeof value === "string");
  return `${name || "?"} ${headline(argument ?? "")}`;
}

export const nameOfSeries = ({ kind, tool }: Series, words: Words): string =>
  kind === "result" ? words.results(tool ?? "") : words.kinds[kind];
