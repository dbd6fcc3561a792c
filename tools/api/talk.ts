/** Sends requests to a server, and has a conversation that shows whether the lessons run on it. */
import Anthropic from "@anthropic-ai/sdk";
import { type Answer, BASE, CACHE, type Case, START, SUMMARIZED } from "./cases.ts";

/** Returns the answer in an error about the request. Throws any other error. */
function answerOf(error: unknown, headers: Case["headers"] = {}): Answer {
  // A wrong key, too many requests or a broken connection says nothing about the request.
  const isAnswer = error instanceof Anthropic.APIError && [400, 404, 413, 422].includes(error.status);
  const isExpected = error instanceof Anthropic.AuthenticationError && headers["x-api-key"] === null;
  if (!isAnswer && !isExpected) throw error;
  return { status: error.status, message: error.apiMessage ?? "without the API's kind of error" };
}

/** Sends a request unchanged. Throws if there is no answer. */
export async function ask(client: Anthropic, body: object | string, headers: Case["headers"] = {}): Promise<Answer> {
  try {
    const json = { "content-type": "application/json", ...headers };
    const message = await client.post<Anthropic.Message>("/v1/messages", { body, headers: json });
    const { input_transformations = [] } = Object(message);
    const dropped = input_transformations.map(({ path = "" }) => path).join(", ");
    return { status: 200, message: dropped && `dropped ${dropped}` };
  } catch (error) {
    return answerOf(error, headers);
  }
}

/** Returns an answer in words. */
export const wordsOf = ({ status, message }: Answer): string =>
  status === 200 ? `accepted${message && `, ${message}`}` : `${status} ${message}`;

/** The lessons' own settings. */
const SETTINGS = { max_tokens: 32_000, thinking: SUMMARIZED, cache_control: CACHE };
export const TALK_REPLIES = 3;

export type Talk = {
  messages: Anthropic.MessageParam[];
  replies: Anthropic.Message[];
  /** Why the conversation ended early, or an empty string. */
  trouble: string;
};

/** Has a conversation of three calls with the lessons' own settings. Throws if the server doesn't answer. */
export async function converse(client: Anthropic): Promise<Talk> {
  const talk: Talk = { messages: [...START.messages], replies: [], trouble: "" };
  while (talk.replies.length < TALK_REPLIES && !talk.trouble) {
    const request = { ...BASE, ...START, ...SETTINGS, messages: talk.messages };
    try {
      const stream = client.messages.stream(request).on("error", () => {});
      const { response } = await stream.withResponse();
      if (response.headers.get("content-type")?.includes("event-stream")) hear(talk, await stream.finalMessage());
      else {
        stream.abort();
        talk.trouble = "it ignores `stream: true`, and the lessons only read streams";
      }
    } catch (error) {
      if (error instanceof Anthropic.NotFoundError)
        throw new Error(`${client.baseURL} has no Messages API, or doesn't know ${BASE.model} (404)`);
      talk.trouble = `it rejects what the lessons send: ${wordsOf(answerOf(error))}`;
    }
  }
  return talk;
}

/** Adds a reply and the results of its calls to the conversation. */
function hear(talk: Talk, message: Anthropic.Message): void {
  talk.replies.push(message);
  const calls = message.content?.filter((block) => block.type === "tool_use") ?? [];
  if (calls.length === 0) talk.trouble = "the model made no call";
  else
    talk.messages.push(
      { role: "assistant", content: message.content },
      { role: "user", content: calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "135" })) },
    );
}

/** Says in a few lines whether the lessons run on the server. */
export function describeServer({ replies, trouble }: Talk): string[] {
  if (replies.length === 0)
    return ["The lessons don't run on this server:", trouble, "if that's about thinking, set THINKING=off"];
  const blocks = replies.flatMap(({ content }) => content ?? []);
  const has = (type: string) => blocks.some((block) => block.type === type);
  if (!has("tool_use")) return ["The lessons don't run on this server:", `no tool call came: ${trouble}`];
  const isCounted = ({ usage }: Anthropic.Message) =>
    (usage?.input_tokens ?? 0) + (usage?.cache_read_input_tokens ?? 0) + (usage?.cache_creation_input_tokens ?? 0) > 1;
  const isCached = replies.length < 2 || replies.some(({ usage }) => usage?.cache_read_input_tokens);
  const limits: string[] = [];
  if (!has("thinking")) limits.push("no thinking came, so s06 keeps no notes when it clears results");
  if (!replies.some(isCounted)) limits.push("no usage came, so s06 may compact too early or too late");
  if (!isCached) limits.push("nothing is read from a cache, so each round pays for the whole prompt");
  return limits.length > 0 ? ["The lessons run on this server, but:", ...limits] : ["The lessons run on this server."];
}
