/** The tree that the lines of Claude Code make, and the branch of it that was the conversation. */
import type { ClaudeLine } from "./formats.ts";

type Node = { line: ClaudeLine; parent?: Node };

export const isReply = ({ type, message }: ClaudeLine) => type === "assistant" && message !== undefined;
const isMessage = (line: ClaudeLine) => isReply(line) || (line.type === "user" && line.message !== undefined);
export const replyId = ({ message, uuid }: ClaudeLine) => message?.id ?? uuid;

/** The branch that ends last, with the rest of its replies and the results of parallel calls beside it. */
export function newestBranch(lines: ClaudeLine[], skip: (what: string) => void): ClaudeLine[] {
  const nodes = new Map<string, Node>();
  /** By the last message that a compaction preserved: its summary, which what is said later comes after. */
  const summaries = new Map<string | undefined, string>();
  let last: Node | undefined;
  for (const [i, line] of lines.entries()) {
    if (line.isSidechain || !isMessage(line)) skip(line.isSidechain ? "line of a subagent" : `${line.type} line`);
    const id = line.uuid ?? (isMessage(line) ? `line ${i}` : "");
    if (line.isSidechain || !id || nodes.has(id)) continue;
    const parentId = line.parentUuid ?? line.logicalParentUuid;
    const isRoot = line.parentUuid === null && !parentId && !line.isCompactSummary;
    const summary = nodes.get(summaries.get(parentId ?? "") ?? "");
    last = { line, parent: summary ?? nodes.get(parentId ?? "") ?? (isRoot ? undefined : last) };
    nodes.set(id, last);
    const { anchorUuid, uuids } = line.compactMetadata?.preservedMessages ?? {};
    if (anchorUuid) summaries.set(uuids?.at(-1), anchorUuid);
  }
  const all = [...nodes.values()];
  const path = new Set<Node>();
  for (let node = all.findLast(({ line }) => isMessage(line)); node; node = node.parent) path.add(node);
  const ids = new Set([...path].flatMap(({ line }) => (isReply(line) ? [replyId(line)] : [])));
  const isPart = ({ line }: Node) => isReply(line) && ids.has(replyId(line));
  const partsOf = ({ line }: Node) => [line.message?.content ?? []].flat().map(Object);
  const calls = new Set(all.filter(isPart).flatMap((node) => partsOf(node).map((part) => part.id)));
  const isAnswer = (node: Node) =>
    node.line.type === "user" && partsOf(node).some((part) => part.tool_use_id && calls.has(part.tool_use_id));
  const messages = all.filter(({ line }) => isMessage(line));
  const kept = messages.filter((node) => path.has(node) || isPart(node) || isAnswer(node));
  for (let gone = messages.length - kept.length; gone > 0; gone--) skip("line of an abandoned branch");
  return kept.map(({ line }) => line);
}
