/**
 * Says whether the lessons run on a server, then sends it the local server's cases and prints how its answers differ.
 *
 *     npm run conformance                   the real API, with your key, for about $0.14
 *     npm run conformance -- --server URL   a compatible server
 */
import { existsSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import { type Answer, BASE, CASES, type Case, isLarge, START } from "./cases.ts";
import { ask, converse, describeServer, TALK_REPLIES, type Talk, wordsOf } from "./talk.ts";

const CREDENTIALS = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"];

type Verdict = "same" | "reworded" | "differs" | "not tried";
/** The reason is why the case couldn't be tried. */
type Result = { verdict: Verdict; answer?: Answer; reason?: string };

// --- one case --------------------------------------------------------------------------------------------------------

/** Returns whether a text begins as expected, where a `…` stands for any text. */
function fits(text: string, expected: string): boolean {
  const parts = expected.split("…").map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return new RegExp(`^${parts.join("[^]*")}`).test(text);
}

function compareAnswers(answer: Answer, expected: Answer): Verdict {
  if (answer.status !== expected.status) return "differs";
  if (answer.status === 200) return answer.message === expected.message ? "same" : "differs";
  return fits(answer.message, expected.message) ? "same" : "reworded";
}

/** Tries a case. Never throws. */
export async function tryCase(
  client: Anthropic,
  { edit, sends, headers, expected }: Case,
  talk: Talk,
): Promise<Result> {
  try {
    let body: object | string = typeof sends === "string" ? sends : { ...BASE, ...sends };
    if (edit && typeof sends === "object") {
      if (talk.trouble) throw new Error(`no conversation with signed thinking: ${talk.trouble}`);
      const thoughtless = talk.replies.findIndex(({ content }) => content[0]?.type !== "thinking");
      if (thoughtless >= 0) throw new Error(`the model did not think before its call ${thoughtless + 1}`);
      const { system, tools } = START;
      const conversation = structuredClone({ system, tools, messages: talk.messages });
      edit(conversation);
      body = { ...BASE, ...conversation, ...sends };
    }
    const answer = await ask(client, body, headers);
    return { verdict: compareAnswers(answer, expected), answer };
  } catch (error) {
    return { verdict: "not tried", reason: error instanceof Error ? error.message : `${error}` };
  }
}

// --- the whole table -------------------------------------------------------------------------------------------------

const shorten = (name: string) => (name.length > 96 ? `${name.slice(0, 95)}…` : name);

type Print = (line: string) => void;

function printResult({ name, expected }: Case, { verdict, answer, reason }: Result, print: Print): void {
  print(`${verdict.padEnd(9)}  ${(expected.rule ?? "").padEnd(26)}  ${shorten(name)}`);
  if (reason) print(`             ${reason}`);
  if (!answer || verdict === "same") return;
  print(`             expected: ${wordsOf(expected)}\n             answered: ${wordsOf(answer)}`);
}

/** Removes the key, which a server may have repeated in an error. */
function hide(text: string): string {
  const secrets = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"].flatMap((name) => process.env[name] || []);
  return secrets.reduce((hidden, secret) => hidden.replaceAll(secret, "(the key)"), text);
}

/** Returns whether at least one case was tried and nothing differs. Throws if it couldn't begin. */
async function runCases(args: string[], print: Print, all: Case[]): Promise<boolean> {
  const { values } = parseArgs({ args, options: { server: { type: "string" } } });
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
  const cases = all.filter((each) => !isLarge(each));
  print(
    `${cases.length + TALK_REPLIES} requests to ${client.baseURL}, to ${BASE.model}, with ${credential ?? "no key"}`,
  );

  const talk = await converse(client);
  for (const line of describeServer(talk)) print(line);
  print("");
  const verdicts: Verdict[] = [];
  for (const each of cases) {
    const result = await tryCase(client, each, talk);
    verdicts.push(result.verdict);
    printResult(each, result, print);
  }
  const count = (verdict: Verdict) => verdicts.filter((each) => each === verdict).length;
  const same = `${count("same") + count("reworded")} the same, ${count("reworded")} of them in other words`;
  const large = `${all.length - cases.length} are too large to send`;
  print(`\n${same}; ${count("differs")} differ, ${count("not tried")} could not be tried, ${large}`);
  return count("differs") === 0 && count("same") > 0;
}

/** Returns the exit code. */
export async function main(args: string[], show: Print = console.log, cases = CASES): Promise<number> {
  const print = (line: string) => show(hide(line));
  try {
    return (await runCases(args, print, cases)) ? 0 : 1;
  } catch (error) {
    print(error instanceof Error ? error.message : String(error));
    return 1;
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  main(process.argv.slice(2)).then((code) => {
    process.exitCode = code;
  });
