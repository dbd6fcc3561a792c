/**
 * Says whether the lessons run on a server, by sending it three requests as they do. With --all, it also sends the local
 * server's cases, and prints how the answers differ.
 *
 *     npm run conformance                    the server that the lessons use
 *     npm run conformance -- --server URL    another one
 *     npm run conformance -- --all           about $0.14 on the real API
 */
import { existsSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import { CREDENTIALS } from "../start.ts";
import { type Answer, BASE, CACHE, CASES, type Case, HOUR, isLarge, START, SUMMARIZED } from "./cases.ts";
import { contentBlocks } from "./said.ts";

type Asked = Pick<Anthropic.MessageCreateParams, "messages" | "system" | "tools" | "cache_control">;

/** Sends a request with the lessons' own settings, and returns the reply. */
async function hear(client: Anthropic, asked: Asked): Promise<Anthropic.Message> {
  const thinking = process.env.THINKING === "off" ? undefined : SUMMARIZED;
  const stream = client.messages.stream({
    model: BASE.model,
    max_tokens: 32_000,
    thinking,
    cache_control: CACHE,
    ...asked,
  });
  stream.on("error", () => {}); // or an early one would end the program
  const { response } = await stream.withResponse();
  if (response.headers.get("content-type")?.includes("event-stream")) return stream.finalMessage();
  stream.abort();
  throw new Error("it doesn't stream, and the lessons only read streams");
}

/** Has a conversation of several replies, and returns it with the results. Throws if a reply makes no call. */
export async function converse(client: Anthropic, replies: number, request = START.messages) {
  const messages = [...request];
  for (let i = 0; i < replies; i++) {
    const { content } = await hear(client, { ...START, messages });
    const calls = content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) throw new Error("the model made no call, although it was asked to");
    const results = calls.map(({ id }) => ({ type: "tool_result" as const, tool_use_id: id, content: "135" }));
    messages.push({ role: "assistant", content }, { role: "user", content: results });
  }
  return messages;
}

/** Sends a plain request, one with a tool, and one with the tool's result and the cache of s06. Throws if one fails. */
async function tryLessons(client: Anthropic): Promise<void> {
  await hear(client, { messages: BASE.messages });
  const messages = await converse(client, 1, [{ role: "user", content: "Run `echo 135` with the tool bash." }]);
  await hear(client, { ...START, messages, cache_control: HOUR });
}

/** The reason is why a case couldn't be tried. */
type Result = { verdict: "same" | "reworded" | "differs" | "not tried"; answer?: Answer; reason?: string };

/** Sends a request unchanged. Throws if there is no answer to it. */
export async function ask(client: Anthropic, body: object | string, headers: Case["headers"] = {}): Promise<Answer> {
  try {
    await client.post("/v1/messages", { body, headers: { "content-type": "application/json", ...headers } });
    return { status: 200, message: "" };
  } catch (error) {
    // A wrong key, too many requests or a broken connection says nothing about the request.
    const isAnswer = error instanceof Anthropic.APIError && [400, 404, 413, 422].includes(error.status);
    const isExpected = error instanceof Anthropic.AuthenticationError && headers["x-api-key"] === null;
    if (!isAnswer && !isExpected) throw error;
    return { status: error.status, message: error.apiMessage ?? "without the API's kind of error" };
  }
}

/** Tries a case. Some edit a conversation, in which each reply has to be thinking and a call. Never throws. */
export async function tryCase(client: Anthropic, each: Case, talk: Anthropic.MessageParam[]): Promise<Result> {
  const { edit, sends, headers, expected } = each;
  if (edit && !hasThoughts(talk))
    return { verdict: "not tried", reason: "the model didn't think before each of three calls" };
  const conversation = edit && structuredClone({ ...START, messages: talk });
  if (conversation) edit?.(conversation);
  const body = typeof sends === "string" ? sends : { ...BASE, ...conversation, ...sends };
  try {
    const answer = await ask(client, body, headers);
    if (answer.status !== expected.status) return { verdict: "differs", answer };
    const [beginning = ""] = expected.message.split("…");
    return { verdict: answer.message.startsWith(beginning) ? "same" : "reworded", answer };
  } catch (error) {
    return { verdict: "not tried", reason: reasonOf(error) };
  }
}

/** Returns whether the conversation has three replies, and each begins with thinking. */
function hasThoughts(talk: Anthropic.MessageParam[]): boolean {
  const replies = talk.filter(({ role }) => role === "assistant");
  return replies.length === 3 && replies.every(({ content }) => contentBlocks(content)[0]?.type === "thinking");
}

function reasonOf(error: unknown): string {
  if (error instanceof Anthropic.APIError && error.apiMessage) return `${error.status} ${error.apiMessage}`;
  return error instanceof Error ? error.message : String(error);
}
const wordsOf = ({ status, message }: Answer) => (status === 200 ? "accepted" : `${status} ${message}`);
type Print = (line: string) => void;

/** Returns whether at least one case was tried, and nothing differs. */
async function tryCases(client: Anthropic, all: Case[], print: Print): Promise<boolean> {
  const cases = all.filter((each) => !isLarge(each));
  const talk = await converse(client, 3).catch(() => []);
  const verdicts: string[] = [];
  for (const each of cases) {
    const { verdict, answer, reason } = await tryCase(client, each, talk);
    verdicts.push(verdict);
    print(`${verdict.padEnd(9)}  ${(each.expected.rule ?? "").padEnd(26)}  ${each.name.slice(0, 96)}`);
    if (reason) print(`             ${reason}`);
    if (answer && verdict !== "same")
      print(`             expected: ${wordsOf(each.expected)}\n             answered: ${wordsOf(answer)}`);
  }
  const count = (verdict: string) => verdicts.filter((each) => each === verdict).length;
  const same = `${count("same") + count("reworded")} the same, ${count("reworded")} of them in other words`;
  const large = `${all.length - cases.length} are too large to send`;
  print(`\n${same}; ${count("differs")} differ, ${count("not tried")} could not be tried, ${large}`);
  return count("differs") === 0 && count("same") > 0;
}

/** Returns whether the lessons run and no case differs. Throws if it can't begin, or if the lessons don't run. */
async function run(args: string[], print: Print, cases: Case[]): Promise<boolean> {
  const { values } = parseArgs({ args, options: { server: { type: "string" }, all: { type: "boolean" } } });
  const env = fileURLToPath(new URL("../../.env", import.meta.url));
  if (existsSync(env)) process.loadEnvFile(env);
  BASE.model = process.env.MODEL_ID || BASE.model;
  const credential = CREDENTIALS.find((name) => process.env[name]);
  if (!credential)
    throw new Error("No key: set ANTHROPIC_API_KEY in the environment or in .env. npm start works without one.");
  const client = new Anthropic({ baseURL: values.server, maxRetries: 8, logLevel: "off" });
  print(`${client.baseURL}, ${BASE.model}, with ${credential}`);
  await tryLessons(client).catch((error) => {
    throw new Error(`The lessons don't run on this server: ${reasonOf(error)}\ndocs/servers.md may say what helps.`);
  });
  print("The lessons run on this server.");
  return values.all ? tryCases(client, cases, print) : true;
}

/** Returns the exit code. */
export async function main(args: string[], print: Print = console.log, cases = CASES): Promise<number> {
  const isOk = await run(args, print, cases).catch((error) => {
    print(reasonOf(error));
    return false;
  });
  return isOk ? 0 : 1;
}

const isProgram = process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url);
if (isProgram) process.exitCode = await main(process.argv.slice(2));
