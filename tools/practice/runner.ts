/**
 * Where practice takes part in a suite. It runs each suite in a process with the variables below, on a reader's version of
 * a lesson. Without them, the tests go straight to node:test.
 */
import { basename } from "node:path";
import { type TestContext, test as testOfNode } from "node:test";

const { PRACTICE_FILE, PRACTICE_STEP, PRACTICE_TEST, PRACTICE_PATIENCE } = process.env;
/** The reader's file, which is tested instead of the lesson. */
export const readersFile = PRACTICE_FILE;
/** How many milliseconds a test may take before it counts as hung. */
export const patience = Number(PRACTICE_PATIENCE ?? 600_000);
/** Checks that practice runs after all tests. */
export const finalChecks: (() => void)[] = [];

let currentStep = "";
/** Names the step of steps.yaml that the next tests grade. Nobody has to write what "program" covers. */
export function step(name: string): void {
  currentStep = name;
}

export type Body = (t: TestContext) => void | Promise<void>;
let hasFailed = false;

/** Defines a test. In practice, only tests that were asked for run, and only until the first one fails. */
export function test(name: string, body: Body): void {
  if (!readersFile) return void testOfNode(name, body);
  if (!isAskedFor(name, readersFile)) return;
  void testOfNode(name, { timeout: patience }, async (t) => {
    if (hasFailed) return t.skip();
    const fail = () => {
      hasFailed = true;
    };
    t.signal.addEventListener("abort", fail); // on a timeout, the body may never return
    try {
      await body(t);
    } catch (error) {
      fail();
      throw error;
    } finally {
      t.signal.removeEventListener("abort", fail);
    }
  });
}

/** Whether a test is about the reader's lesson, and of the step or with the name that practice asked for. */
function isAskedFor(name: string, file: string): boolean {
  const [lesson = ""] = /^s\d\d(?=: )/.exec(name) ?? [];
  if (!basename(file).startsWith(lesson)) return false;
  if (PRACTICE_TEST) return name === PRACTICE_TEST;
  return !PRACTICE_STEP || PRACTICE_STEP === currentStep;
}
