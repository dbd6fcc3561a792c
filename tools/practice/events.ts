/** What the process with the tests tells, line by line. */
export type Event =
  | { event: "begin"; step: string; test: string }
  | { event: "red"; step: string; test: string; title: string; problem: Problem } // `title`: with the groups that it is in
  | { event: "pause" } // told every now and then, unless a loop never pauses
  | { event: "end" } // all tests have run
  | { event: "exit"; stack: string };
/** `wanted` and `came` if these are what an assertion compared. */
export type Problem = { message: string; stack: string; wanted?: string; came?: string };

export const LOADING = "the file loads"; // as if it were a test
