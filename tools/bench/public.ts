/** Fetches public sessions from the repositories that published them. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const GITHUB = "https://raw.githubusercontent.com";

/**
 * Fetches the sessions that a folder lacks. The list has lines of tab-separated values: id, repository, commit and path.
 * Returns the files that are now in the folder, and says how many aren't. Throws if there are none.
 */
export async function fetchSessions(list: string, folder: string, host = GITHUB): Promise<string[]> {
  mkdirSync(folder, { recursive: true });
  const [, ...lines] = readFileSync(list, "utf8").trim().split("\n");
  const files: string[] = [];
  const problems: string[] = [];
  for (const [id, repo, commit, path] of lines.map((line) => line.split("\t"))) {
    const file = join(folder, `${id}.jsonl`);
    try {
      if (!existsSync(file)) writeFileSync(file, await download(`${host}/${repo}/${commit}/${path}`));
      files.push(file);
    } catch (error) {
      problems.push(String(error));
    }
  }
  if (problems.length > 0) console.error(`${problems.length} sessions can't be fetched. ${problems[0]}`);
  if (files.length === 0) throw new Error(`${folder} holds no session of ${list}`);
  return files;
}

async function download(url: string): Promise<string> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return response.text();
}
