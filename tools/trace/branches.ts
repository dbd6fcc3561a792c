/** The lines of a Claude Code file form a tree, because the user can go back. The conversation is one branch of it. */
import type { ClaudeLine } from "./formats.ts";

type Node = { line: ClaudeLine; parent?: Node };

export const isReply = ({ type, message }: ClaudeLine) => type === "assistant" && message !== undefined;
/** Other types of lines can have a `message` as well. */
export const isMessage = ({ type, message }: ClaudeLine) =>
  message !== undefined && /^(user|assistant|attachment)$/.test(type);
export const replyId = ({ message, uuid }: ClaudeLine) => message?.id ?? uuid;

/** Returns the messages of the branch that ends last, in the order of the file. */
export function newestBranch(lines: ClaudeLine[], skip: (reason: string) => void): ClaudeLine[] {
  for (const line of lines) if (!isMessage(line) && !line.shape) skip(`${line.type} line`);
  const messages = toTree(lines).filter(({ line }) => isMessage(line));
  const branch = pathTo(messages.at(-1));
  const isBesideBranch = parallelFilter(branch, messages);
  return messages.flatMap((node) => {
    if (branch.has(node) || isBesideBranch(node)) return node.line;
    skip("line of an abandoned branch");
    return [];
  });
}

/** A line whose parent isn't in the file continues the line above it. */
function toTree(lines: ClaudeLine[]): Node[] {
  const nodes = new Map<string, Node>();
  /** Compactions can keep messages. Whatever follows the last of them comes after the summary, whose id this map has. */
  const summaries = new Map<string, string>();
  let previous: Node | undefined;
  const parentOf = (line: ClaudeLine) => {
    const parentId = line.parentUuid ?? line.logicalParentUuid ?? "";
    const parent = nodes.get(summaries.get(parentId) ?? "") ?? nodes.get(parentId);
    return parent ?? (isRoot(line) ? undefined : previous);
  };
  for (const [i, line] of lines.entries()) {
    const id = line.uuid ?? (isMessage(line) ? `line ${i}` : undefined);
    if (id === undefined || nodes.has(id)) continue;
    previous = { line, parent: parentOf(line) };
    nodes.set(id, previous);
    const { anchorUuid, uuids } = line.compactMetadata?.preservedMessages ?? {};
    const lastKept = uuids?.at(-1);
    if (anchorUuid && lastKept) summaries.set(lastKept, anchorUuid);
  }
  return [...nodes.values()];
}

const isRoot = ({ parentUuid, logicalParentUuid, isCompactSummary }: ClaudeLine) =>
  parentUuid === null && !logicalParentUuid && !isCompactSummary;

function pathTo(last?: Node): Set<Node> {
  const path = new Set<Node>();
  for (let node = last; node; node = node.parent) path.add(node);
  return path;
}

/** A reply has a line for each block, and results of parallel calls follow different lines: they fork without being abandoned. */
function parallelFilter(branch: Set<Node>, messages: Node[]): (node: Node) => boolean {
  const replies = new Set([...branch].flatMap(({ line }) => (isReply(line) ? [replyId(line)] : [])));
  const isInReply = ({ line }: Node) => isReply(line) && replies.has(replyId(line));
  const calls = new Set(messages.filter(isInReply).flatMap((node) => partsOf(node).map(({ id }) => id)));
  const isResult = (node: Node) =>
    node.line.type === "user" && partsOf(node).some(({ tool_use_id: id }) => id && calls.has(id));
  return (node) => isInReply(node) || isResult(node);
}

const partsOf = ({ line }: Node) => [line.message?.content ?? []].flat().map(Object);
