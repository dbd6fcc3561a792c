/**
 * Sends the local server's cases to the real API, or to a compatible server, and prints how the answers differ.
 *
 *     npm run conformance                   uses your key, after asking
 *     npm run conformance -- --server URL   tries a compatible server, and says which lessons would have trouble there
 */
import { existsSync, realpathSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import { BASE, CACHE, CASES, type Case, START, SUMMARIZED } from "./cases.ts";

const USAGE = `npm run conformance -- [-y] [--all] [--server URL]
  -y            doesn't ask
  --all         also sends the largest requests
  --server URL  uses this server instead of ANTHROPIC_BASE_URL`;
const CREDENTIALS = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"];
const THOUGHTS = { count: 3, max_tokens: 2_000 }; // requests that get signed thinking

type Result = Pick<Case, "rules" | "name" | "expected"> & {
  /** Worded like `expected`, or the reason why the case couldn't be tried. */
  answer: string;
  verdict: "same" | "differs" | "not tried";
};

// --- one case --------------------------------------------------------------------------------------------------------

/** Sends a request unchanged. Returns the answer, worded as in a case, and throws if there is none. */
async function ask(client: Anthropic, body: object | string, headers: Case["headers"] = {}) {
  try {
    const json = { "content-type": "application/json", ...headers };
    const message = await client.post<Anthropic.Message>("/v1/messages", { body, headers: json });
    const { input_transformations = [] } = Object(message);
    const dropped = input_transformations.map(({ path = "" }) => path).join(", ");
    return { answer: dropped ? `accepted, dropped ${dropped}` : "accepted", message };
  } catch (error) {
    // Any other error isn't about the request: a wrong key, an unknown model, too many requests, no connection.
    const isAnswer = error instanceof Anthropic.APIError && [400, 404, 413, 422].includes(error.status);
    const isAsked = error instanceof Anthropic.AuthenticationError && headers?.["x-api-key"] === null;
    if (isAnswer || isAsked) return { answer: `${error.status} ${error.apiMessage}` };
    throw error;
  }
}

export type Talk = { messages: Anthropic.MessageParam[]; replies: Anthropic.Message[]; trouble: string };

/** Has a conversation of three calls, normally with thinking before each. Throws if the server doesn't answer. */
export async function converse(client: Anthropic): Promise<Talk> {
  const talk: Talk = { messages: [...START.messages], replies: [], trouble: "" };
  const settings = { max_tokens: THOUGHTS.max_tokens, thinking: SUMMARIZED, cache_control: CACHE };
  while (talk.replies.length < THOUGHTS.count && !talk.trouble) {
    const { answer, message } = await ask(client, { ...BASE, ...START, ...settings, messages: talk.messages });
    const calls = message?.content?.filter((block) => block.type === "tool_use") ?? [];
    if (message) talk.replies.push(message);
    if (message && calls.length > 0)
      talk.messages.push(
        { role: "assistant", content: message.content },
        { role: "user", content: calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "135" })) },
      );
    else talk.trouble = message ? "the model made no call" : `it answered ${answer}`;
  }
  return talk;
}

/** Whether an answer is the expected one, in which `…` stands for any text. */
function isSame(answer: string, expected: string): boolean {
  const parts = expected.split("…").map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return new RegExp(`^${parts.join("[^]*")}$`).test(answer);
}

/** Tries a case. Never throws. */
export async function tryCase(client: Anthropic, { edit, sends, headers, ...row }: Case, talk: Talk): Promise<Result> {
  const { rules, name, expected } = row;
  try {
    let body: object | string = typeof sends === "string" ? sends : { ...BASE, ...sends };
    if (edit && typeof sends === "object") {
      if (talk.trouble) throw new Error(`no conversation with signed thinking: ${talk.trouble}`);
      const { system, tools } = START;
      const conversation = structuredClone({ system, tools, messages: talk.messages });
      edit(conversation);
      body = { ...BASE, ...conversation, ...sends };
    }
    const { answer } = await ask(client, body, headers);
    return { rules, name, expected, answer, verdict: isSame(answer, expected) ? "same" : "differs" };
  } catch (error) {
    return { rules, name, expected, answer: error instanceof Error ? error.message : `${error}`, verdict: "not tried" };
  }
}

// --- the whole table -------------------------------------------------------------------------------------------------

/** Returns dollars, at the price of Sonnet 5.5. Rejected requests are free, and replies are taken to have 200 tokens. */
function costOf(cases: Case[]): number {
  const paid = cases.filter(({ expected }) => expected.startsWith("accepted"));
  const sizes = [
    ...Array(THOUGHTS.count).fill({ input: 3_000, output: THOUGHTS.max_tokens }),
    ...paid.map(({ sends, edit }) => {
      if (typeof sends === "string") return { input: 500, output: 1 };
      const { max_tokens } = { ...BASE, ...sends };
      return { input: edit ? 4_000 : 500 + JSON.stringify(sends).length / 3, output: Math.min(max_tokens, 200) };
    }),
  ];
  return sizes.reduce((sum, { input, output }) => sum + (input * 2 + output * 10) / 1e6, 0);
}

/** Names the lessons that would suffer from whatever the conversation lacked. */
function troubles({ replies, trouble }: Talk): string[] {
  const blocks = replies.flatMap(({ content }) => content ?? []);
  const isCounted = ({ usage }: Anthropic.Message) =>
    (usage?.input_tokens ?? 0) + (usage?.cache_read_input_tokens ?? 0) + (usage?.cache_creation_input_tokens ?? 0) > 1;
  const found: string[] = [];
  if (replies.length === 0) found.push(`s01 to s06: a request with thinking, tools and a cache fails (${trouble})`);
  else if (!blocks.some(({ type }) => type === "tool_use"))
    found.push("s01 to s06: no tool call came, so nothing is done");
  if (replies.length === 0) found.push("s01 to s06: if that is about thinking, set THINKING=off");
  else if (!blocks.some(({ type }) => type === "thinking"))
    found.push("s06: no thinking, so when it clears a result, no note of it is left; the rest works");
  if (replies.length > 0 && !replies.some(isCounted))
    found.push("s06: no usage, so it estimates its context and may compact too early or too late");
  if (replies.length > 1 && !replies.some(({ usage }) => usage?.cache_read_input_tokens))
    found.push("s01 to s06: nothing is read from a cache, so each round pays for the whole prompt");
  return found;
}

const short = (text: string, length = 96) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

type Print = (line: string) => void;

function printResult({ verdict, rules, name, expected, answer }: Result, print: Print): void {
  print(`${verdict.padEnd(9)}  ${rules[0]?.padEnd(24)}  ${short(name)}`);
  if (verdict === "differs") print(`             expected: ${expected}\n             answered: ${answer}`);
  if (verdict === "not tried") print(`             ${answer}`);
}

/** Removes the key, which a server may have repeated in an error. */
function hide(text: string): string {
  const secrets = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"].flatMap((name) => process.env[name] || []);
  return secrets.reduce((hidden, secret) => hidden.replaceAll(secret, "(the key)"), text);
}

async function mayStart(): Promise<boolean> {
  if (!process.stdin.isTTY) throw new Error("there is no terminal to ask on; -y starts without a question");
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await terminal.question("Go on? [y/N] ");
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}

/** Returns whether at least one case was tried and nothing differs. Throws if it couldn't begin. */
async function compare(args: string[], print: Print): Promise<boolean> {
  const flag = { type: "boolean", default: false } as const;
  const text = { type: "string" } as const;
  const options = { yes: { ...flag, short: "y" }, all: flag, help: flag, server: text };
  const { values } = parseArgs({ args, options });
  if (values.help) {
    print(USAGE);
    return true;
  }

  const env = fileURLToPath(new URL("../../.env", import.meta.url));
  if (existsSync(env)) process.loadEnvFile(env);
  BASE.model = process.env.MODEL_ID || BASE.model;
  const credential = CREDENTIALS.find((name) => process.env[name]);
  if (!credential && !values.server)
    throw new Error(
      "No key: set ANTHROPIC_API_KEY in the environment or in .env. Without one, npm test runs the same cases offline.",
    );
  const nothing = credential ? {} : { apiKey: "none" };
  const client = new Anthropic({ baseURL: values.server, maxRetries: 8, logLevel: "off", ...nothing });
  const cases = CASES.filter(({ isLarge }) => values.all || !isLarge);
  const left = CASES.length - cases.length;
  const cost = costOf(cases).toFixed(2);
  const to = `${client.baseURL}, to ${BASE.model}, with ${credential ?? "no key"}`;
  print(`${cases.length + THOUGHTS.count} requests to ${to}: at most about $${cost} at the price of Sonnet 5.5.`);
  if (!values.yes && !(await mayStart())) return false;

  const talk = await converse(client);
  const results: Result[] = [];
  for (const each of cases) {
    const result = await tryCase(client, each, talk);
    result.answer = hide(result.answer);
    results.push(result);
    printResult(result, print);
  }
  const count = (verdict: Result["verdict"]) => results.filter((result) => result.verdict === verdict).length;
  const large = left > 0 ? `; ${left} left out, which --all sends` : "";
  print(`\n${count("same")} the same, ${count("differs")} differ, ${count("not tried")} could not be tried${large}`);
  if (values.server) for (const line of troubles(talk)) print(hide(line));
  return count("differs") === 0 && count("same") > 0;
}

/** Returns the exit code. */
export async function main(args: string[], print: Print = console.log): Promise<number> {
  try {
    return (await compare(args, print)) ? 0 : 1;
  } catch (error) {
    print(hide(error instanceof Error ? error.message : String(error)));
    return 1;
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  main(process.argv.slice(2)).then((code) => {
    process.exitCode = code;
  });
