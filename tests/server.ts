/** Strict servers for tests. Each request that they reject fails the suite, unless a test has announced it. */
import assert from "node:assert/strict";
import { after } from "node:test";
import { type Failure, type Reply, type Server, scripted, startServer } from "../offline/api/server.ts";
import { DEFAULTS } from "../offline/start.ts";

/** The server of this process, once useServer has run. */
export let server: Server;

const servers: Server[] = [];
const expected: RegExp[] = [];

/** Starts a server and points the environment to it, for lessons that are imported later. The rest is as if nothing was set. */
export async function useServer(): Promise<Server> {
  for (const name of Object.keys(process.env)) {
    if (name.startsWith("ANTHROPIC_")) delete process.env[name];
  }
  Object.assign(process.env, DEFAULTS);
  after(async () => {
    await Promise.all(servers.map((each) => each.close()));
    checkRejections();
  });
  server = await newServer();
  Object.assign(process.env, { ANTHROPIC_BASE_URL: server.url, ANTHROPIC_API_KEY: "test-key" });
  return server;
}

/** Starts another server with these replies, for a test that runs at the same time as others. */
export async function newServer(...replies: Reply[]): Promise<Server> {
  const started = await startServer({ model: scripted(...replies) });
  servers.push(started);
  return started;
}

/** Announces that a request will be rejected with this message, once for each such request. */
export const expectRejection = (message: RegExp) => void expected.push(message);

/** Throws if a request was rejected that no test announced, or if an announced rejection didn't happen. */
function checkRejections(): void {
  const rejected = servers
    .flatMap(({ journal }) => journal)
    .flatMap(({ status, error }) => (status > 200 && error) || []);
  const surprises = rejected.filter((error) => {
    const i = expected.findIndex((message) => message.test(error));
    return i < 0 || !expected.splice(i, 1);
  });
  assert.deepEqual({ surprises, expected }, { surprises: [], expected: [] }, "what the servers rejected");
}

/** Among failures, one request that succeeds. */
export const PASS: Failure = { kind: "slow", delay: 0 };
