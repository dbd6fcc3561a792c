/**
 * Says whether the lessons run on a server, then sends it the local server's cases and prints how its answers differ.
 *
 *     npm run conformance                   the real API, with your key, after asking
 *     npm run conformance -- --server URL   a compatible server
 *
 * With -y it doesn't ask, and with --all it also sends the largest requests.
 */
import { existsSync, realpathSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import { dollarsForInput, IN_INPUT_TOKENS } from "../trace/prices.ts";
import { BASE, CASES, type Case, START } from "./cases.ts";
import { ask, converse, describeServer, TALK_REPLIES, type Talk } from "./talk.ts";

const CREDENTIALS = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"];

type Result = Pick<Case, "rules" | "name" | "expected"> & {
  /** Worded like `expected`, or the reason why the case couldn't be tried. */
  answer: string;
  verdict: "same" | "reworded" | "differs" | "not tried";
};

// --- one case --------------------------------------------------------------------------------------------------------

/** Returns whether an answer is the expected one, in which a `…` stands for any text. */
function isSame(answer: string, expected: string): boolean {
  const parts = expected.split("…").map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return new RegExp(`^${parts.join("[^]*")}$`).test(answer);
}

function compareAnswers(answer: string, expected: string): Result["verdict"] {
  if (isSame(answer, expected)) return "same";
  const isRejection = /^\d/.test(answer);
  return isRejection && answer.slice(0, 3) === expected.slice(0, 3) ? "reworded" : "differs";
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
    const answer = await ask(client, body, headers);
    return { rules, name, expected, answer, verdict: compareAnswers(answer, expected) };
  } catch (error) {
    return { rules, name, expected, answer: error instanceof Error ? error.message : `${error}`, verdict: "not tried" };
  }
}

// --- the whole table -------------------------------------------------------------------------------------------------

/** Returns dollars at the price of Sonnet 5.5, for replies of 200 tokens. Rejected requests are free. */
function estimateCost(cases: Case[]): number {
  let input = TALK_REPLIES * 5_000;
  let output = TALK_REPLIES * 1_000;
  for (const { expected, sends, edit } of cases) {
    if (!expected.startsWith("accepted") || typeof sends === "string") continue;
    const { max_tokens } = { ...BASE, ...sends };
    input += (edit ? 4_000 : 500) + JSON.stringify(sends).length / 3;
    output += Math.min(max_tokens, 200);
  }
  return dollarsForInput(input + output * IN_INPUT_TOKENS.output);
}

const shorten = (name: string) => (name.length > 96 ? `${name.slice(0, 95)}…` : name);

type Print = (line: string) => void;

function printResult({ verdict, rules, name, expected, answer }: Result, print: Print): void {
  print(`${verdict.padEnd(9)}  ${rules[0]?.padEnd(24)}  ${shorten(name)}`);
  if (verdict === "differs" || verdict === "reworded")
    print(`             expected: ${expected}\n             answered: ${answer}`);
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
async function runCases(args: string[], print: Print): Promise<boolean> {
  const flag = { type: "boolean", default: false } as const;
  const text = { type: "string" } as const;
  const options = { yes: { ...flag, short: "y" }, all: flag, server: text };
  const { values } = parseArgs({ args, options });
  const env = fileURLToPath(new URL("../../.env", import.meta.url));
  if (existsSync(env)) process.loadEnvFile(env);
  BASE.model = process.env.MODEL_ID || BASE.model;
  const credential = CREDENTIALS.find((name) => process.env[name]);
  if (!credential && !values.server)
    throw new Error(
      "No key: set ANTHROPIC_API_KEY in the environment or in .env. Without one, npm test runs the same cases offline.",
    );
  const placeholderKey = credential ? {} : { apiKey: "none" };
  const client = new Anthropic({ baseURL: values.server, maxRetries: 8, logLevel: "off", ...placeholderKey });
  const cases = CASES.filter(({ isLarge }) => values.all || !isLarge);
  const left = CASES.length - cases.length;
  const cost = estimateCost(cases).toFixed(2);
  const to = `${client.baseURL}, to ${BASE.model}, with ${credential ?? "no key"}`;
  print(`${cases.length + TALK_REPLIES} requests to ${to}: about $${cost} at the price of Sonnet 5.5.`);
  if (!values.yes && !(await mayStart())) return false;

  const talk = await converse(client);
  for (const line of describeServer(talk)) print(hide(line));
  print("");
  const results: Result[] = [];
  for (const each of cases) {
    const result = await tryCase(client, each, talk);
    result.answer = hide(result.answer);
    results.push(result);
    printResult(result, print);
  }
  const count = (verdict: Result["verdict"]) => results.filter((result) => result.verdict === verdict).length;
  const same = `${count("same") + count("reworded")} the same, ${count("reworded")} of them in other words`;
  const large = left > 0 ? `; ${left} left out, which --all sends` : "";
  print(`\n${same}; ${count("differs")} differ, ${count("not tried")} could not be tried${large}`);
  return count("differs") === 0 && count("same") > 0;
}

/** Returns the exit code. */
export async function main(args: string[], print: Print = console.log): Promise<number> {
  try {
    return (await runCases(args, print)) ? 0 : 1;
  } catch (error) {
    print(hide(error instanceof Error ? error.message : String(error)));
    return 1;
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  main(process.argv.slice(2)).then((code) => {
    process.exitCode = code;
  });
