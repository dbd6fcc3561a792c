import { execSync } from "node:child_process";
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic(); // reads ANTHROPIC_API_KEY
const input_schema = { type: "object" as const, properties: { command: { type: "string" } } };
const tools = [{ name: "bash", description: "Run a bash command.", input_schema }];
const messages: Anthropic.MessageParam[] = [{ role: "user", content: process.argv[2] ?? "" }];

while (true) {
  const { content } = await client.messages.create({ model: "claude-sonnet-5-5", max_tokens: 8_000, tools, messages });
  for (const block of content) if (block.type === "text") console.log(block.text);
  const calls = content.filter((block) => block.type === "tool_use");
  if (calls.length === 0) break; // it wants nothing more run, so it's done
  const results = calls.map(({ id, input }) => {
    const { command } = input as { command: string };
    console.log(`$ ${command}`);
    return { type: "tool_result" as const, tool_use_id: id, content: execSync(command, { shell: "bash" }).toString() };
  });
  messages.push({ role: "assistant", content }, { role: "user", content: results });
}
