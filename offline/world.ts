/** The scratch folder, where an agent can't harm anything: a copy of what the lessons talk about, and a library to read. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ROOT } from "./start.ts";

export const SCRATCH = join(ROOT, ".offline"); // ignored by git

const COLOURS = ["amber", "azure", "coral", "ebony", "ivory", "khaki", "mauve", "olive"];
/** Books of 2,000 characters: so short that several come along with a summary, and too long to fit into a small window together. */
export const LIBRARY = Array.from({ length: 64 }, (_, i) => {
  const number = i + 1;
  const fact = `the cover of book ${number} is ${COLOURS[(i * 5) % COLOURS.length]}`;
  const pages = `Page after page of book ${number}. `.repeat(200).slice(0, 2_000);
  return { path: `library/book-${String(number).padStart(2, "0")}.txt`, fact, text: `${pages}\nFact: ${fact}\n` };
});

/** Fills the scratch folder and removes nothing from it, so conversations can be resumed and two agents can start at once. */
export function fillScratch(): void {
  mkdirSync(SCRATCH, { recursive: true });
  const copied = ["agents", "docs", "skills"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)),
  );
  for (const path of ["package.json", ...copied]) {
    const file = join(ROOT, path);
    if (statSync(file).isFile()) put(path, readFileSync(file));
  }
  for (const { path, text } of LIBRARY) put(path, Buffer.from(text));
}

/** Writes a file in one step, and only if it has changed, since another agent may be reading it. */
function put(path: string, content: Buffer): void {
  const file = join(SCRATCH, path);
  if (existsSync(file) && readFileSync(file).equals(content)) return;
  mkdirSync(dirname(file), { recursive: true });
  const part = join(SCRATCH, `.part-${process.pid}`);
  writeFileSync(part, content);
  renameSync(part, file);
}
