/** Fetches public sessions from the repositories that published them. */
import { type ExecFileSyncOptions, execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** `source` is a repository and a commit. */
type Listed = { file: string; source: string; path: string };

/** Fetches only these files of the commit, because some repositories are large. Throws if git fails. */
function fetchFrom(source: string, sessions: Listed[]): void {
  const [repo = "", commit = ""] = source.split(" ");
  const clone = mkdtempSync(join(tmpdir(), "public-"));
  const env = { ...process.env, GIT_TERMINAL_PROMPT: "0" }; // GitHub asks for a password if a repository is gone
  const options: ExecFileSyncOptions = { cwd: clone, env, maxBuffer: 1e9, stdio: ["ignore", "pipe", "pipe"] };
  const git = (...args: string[]) => execFileSync("git", args, options);
  try {
    git("init", "-q");
    git("remote", "add", "origin", `https://github.com/${repo}`);
    git("fetch", "-q", "--depth", "1", "--filter=blob:none", "origin", commit);
    for (const { file, path } of sessions) writeFileSync(file, git("show", `${commit}:${path}`));
  } finally {
    rmSync(clone, { recursive: true });
  }
}

/**
 * Fetches the sessions of a list that a folder lacks, and prints which repositories can't be fetched. The list is a file
 * of tab-separated values: id, repository, commit and path. Returns the listed files that are now in the folder.
 */
export function fetchSessions(list: string, folder: string): string[] {
  mkdirSync(folder, { recursive: true });
  const [, ...lines] = readFileSync(list, "utf8").trim().split("\n");
  const listed = lines.map((line): Listed => {
    const [id, repo, commit, path = ""] = line.split("\t");
    return { file: join(folder, `${id}.jsonl`), source: `${repo} ${commit}`, path };
  });
  const isThere = ({ file }: Listed) => existsSync(file);
  for (const source of new Set(listed.map((each) => each.source))) {
    const missing = listed.filter((each) => each.source === source && !isThere(each));
    try {
      if (missing.length > 0) fetchFrom(source, missing);
    } catch (error) {
      const { length } = missing.filter((each) => !isThere(each));
      const reason = Object(error).stderr || error;
      console.error(`${source} can't be fetched; sessions left out: ${length}\n${reason}`.trim());
    }
  }
  const files = listed.filter(isThere).map(({ file }) => file);
  if (files.length === 0) throw new Error(`${folder} holds no session of ${list}, and none could be fetched`);
  return files;
}
