/**
 * Installs real clients in a scratch folder, has each do one task on the local Messages API, and prints what was rejected.
 * It isn't part of CI, because it downloads several hundred megabytes.
 *
 *     npm run test:clients
 */
import { execFile, execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startServer } from "./api/server.ts";
import { opencodeConfig, rehearseForAnyone } from "./clients.ts";
import { ROOT } from "./start.ts";

const TASK = "Read package.json and tell me the name and the license of this project.";
const ANSWER = "agent-in-six-lessons; its license is MIT";
const LIMIT = 180_000; // milliseconds for a task

/** An agent made with the Vercel AI SDK, which is only a library. */
const AI_SDK_AGENT = `
import { readFileSync } from "node:fs";
import { createAnthropic } from "@ai-sdk/anthropic";
import { isStepCount, generateText, tool } from "ai";
import { z } from "zod";
const anthropic = createAnthropic({ baseURL: process.env.ANTHROPIC_BASE_URL + "/v1", apiKey: "offline" });
const inputSchema = z.object({ path: z.string() });
const read = tool({ inputSchema, execute: ({ path }) => readFileSync(path, "utf8") });
const settings = { model: anthropic("claude-sonnet-5-5"), tools: { read }, stopWhen: isStepCount(5) };
console.log((await generateText({ ...settings, prompt: process.argv[2] })).text);
`;

type Client = { name: string; package: string; command: string[]; env?: (url: string) => Record<string, string> };
const CLIENTS: Client[] = [
  {
    name: "Claude Code",
    package: "@anthropic-ai/claude-code",
    command: ["node_modules/.bin/claude", "-p"],
    env: () => ({ CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" }),
  },
  {
    name: "opencode",
    package: "opencode-ai",
    command: ["node_modules/.bin/opencode", "run", "-m", "local/claude-sonnet-5-5"],
    env: (url) => ({ OPENCODE_CONFIG_CONTENT: opencodeConfig(url), OPENCODE_DISABLE_MODELS_FETCH: "1" }),
  },
  { name: "Vercel AI SDK", package: "ai", command: ["node_modules/.bin/node", "agent.mjs"] },
];
// Without a tag, npm would choose older versions to suit an older Node.
const PACKAGES = [
  "node@24",
  "zod",
  ...["@ai-sdk/anthropic", ...CLIENTS.map((each) => each.package)].map((name) => `${name}@latest`),
];

const folder = mkdtempSync(join(tmpdir(), "clients-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
writeFileSync(join(folder, "package.json"), "{}");
writeFileSync(join(folder, "agent.mjs"), AI_SDK_AGENT);
execFileSync("npm", ["install", "--no-audit", "--no-fund", ...PACKAGES], { cwd: folder, stdio: "inherit" });
const workspace = join(folder, "workspace");
mkdirSync(workspace);
copyFileSync(join(ROOT, "package.json"), join(workspace, "package.json"));

/** Runs a client to its end. Returns what it prints. */
function runClient({ command: [program = "", ...args], env }: Client, url: string): Promise<string> {
  const paths = args.map((arg) => (arg.endsWith(".mjs") ? join(folder, arg) : arg));
  const base = { PATH: process.env.PATH, HOME: folder, ANTHROPIC_BASE_URL: url, ANTHROPIC_AUTH_TOKEN: "offline" };
  const options = { cwd: workspace, env: { ...base, ...env?.(url) }, timeout: LIMIT };
  return new Promise((resolve) => {
    const child = execFile(join(folder, program), [...paths, TASK], options, (_, stdout, stderr) =>
      resolve(stdout + stderr),
    );
    child.stdin?.end();
  });
}

for (const client of CLIENTS) {
  const server = await startServer({ model: rehearseForAnyone });
  const output = await runClient(client, server.url);
  await server.close();
  const manifest = readFileSync(join(folder, "node_modules", client.package, "package.json"), "utf8");
  const rejected = server.journal.filter(({ status }) => status !== 200);
  const isRight = output.includes(ANSWER);
  const counts = `${server.journal.length} requests, ${server.journal.length - rejected.length} accepted`;
  console.log(
    `${client.name} ${JSON.parse(manifest).version}: ${counts}, ${isRight ? "the right answer" : "no answer"}`,
  );
  for (const { status, error } of rejected) console.log(`  ${status} ${error}`);
  if (isRight && rejected.length === 0) continue;
  console.log(output);
  process.exitCode = 1;
}
