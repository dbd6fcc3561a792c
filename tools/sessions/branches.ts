/** The lines of a Claude Code file form a tree, because the user can go back. The conversation is one branch of it. */
import { type ClaudeLine, isMessage, isReply, replyId } from "./claude-lines.ts";
import type { Skip } from "./events.ts";

type Node = { line: ClaudeLine; parent?: Node };

/** Returns the messages of the branch that ends last and all lines without a message, each once, in the order of the file. */
export function newestBranch(lines: ClaudeLine[], skip: Skip): ClaudeLine[] {
  const nodes = toTree(lines);
  const messages = nodes.filter(({ line }) => isMessage(line));
  const branch = pathTo(messages.at(-1));
  const isBesideBranch = parallelFilter(branch, messages);
  return nodes.flatMap((node) => {
    if (!isMessage(node.line) || branch.has(node) || isBesideBranch(node)) return node.line;
    skip("line of an abandoned branch");
    return [];
  });
}

/** A line whose parent isn't in the file continues the message above it. */
function toTree(lines: ClaudeLine[]): Node[] {
  const all: Node[] = [];
  const nodes = new Map<string | undefined, Node>();
  /** Compactions can keep messages. Whatever follows the last of them comes after the summary, whose id this map has. */
  const summaries = new Map<string | undefined, string>();
  let previous: Node | undefined;
  for (const line of lines) {
    if (line.uuid !== undefined && nodes.has(line.uuid)) continue; // a fork repeats lines
    const id = line.parentUuid ?? undefined;
    const above = isRoot(line) ? undefined : previous;
    const node = { line, parent: nodes.get(summaries.get(id)) ?? nodes.get(id) ?? above };
    all.push(node);
    if (line.uuid !== undefined) nodes.set(line.uuid, node);
    if (isMessage(line)) previous = node;
    const { summary, lastKept } = line.compactMetadata ?? {};
    if (summary) summaries.set(lastKept, summary);
  }
  return all;
}

/** The line of a compaction has no parent either. Its `logicalParentUuid` is wrong in versions 2.1.237 to 2.1.267. */
const isRoot = (line: ClaudeLine) => line.parentUuid === null && isMessage(line) && !line.isCompactSummary;

function pathTo(last?: Node): Set<Node> {
  const path = new Set<Node>();
  for (let node = last; node; node = node.parent) path.add(node);
  return path;
}

/**
 * A reply has a line for each block, and results of parallel calls follow different lines: they fork without being
 * abandoned. But the line of an abandoned branch can repeat a block of this one.
 */
function parallelFilter(branch: Set<Node>, messages: Node[]): (node: Node) => boolean {
  const own = [...branch].filter(({ line }) => isReply(line));
  const replies = new Set(own.map(({ line }) => replyId(line)));
  const blocks = new Set(own.map(keyOf));
  const isInReply = (node: Node) => isReply(node.line) && replies.has(replyId(node.line)) && !blocks.has(keyOf(node));
  const calls = new Set([...own, ...messages.filter(isInReply)].flatMap((node) => partsOf(node).map(({ id }) => id)));
  const isResult = (node: Node) =>
    node.line.type === "user" && partsOf(node).some(({ tool_use_id: id }) => id && calls.has(id));
  return (node) => isInReply(node) || isResult(node);
}

const keyOf = ({ line }: Node) => JSON.stringify([replyId(line), line.message?.content]);
const partsOf = ({ line }: Node) => [line.message?.content ?? []].flat().map(Object);
