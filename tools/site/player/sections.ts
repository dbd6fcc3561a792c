/**
 * Where a section leads in its lesson's run: to a step, by name, with a number if there are several of that name, or to the
 * line of the script after "line:". A section that isn't here leads to the lines that it quotes, if it quotes any.
 */
export const SECTIONS: Record<string, Record<string, string>> = {
  s01: {
    problem: "start",
    idea: "call",
    "1-the-loop": "if",
    "2-one-tool-and-youre-asked-first": 'line: await options.approve("Run this?")',
    "3-every-call-gets-a-result": "results",
    "5-what-keeps-it-alive": "line: // That is the agent.",
    "try-it": "if 3",
  },
  s02: {
    problem: "start",
    idea: "call",
    "1-add-an-entry-for-each-tool": "reply",
    "2-keep-file-tools-in-the-workspace": "run write_file",
    "3-read-edit-write": "run edit_file",
    "what-changed": "run bash",
    "try-it": "if 4",
  },
  s03: {
    problem: "start",
    idea: "call",
    "1-validate-the-list": "run todo",
    "2-replace-the-whole-list": "results",
    "4-remind-the-model": "remind",
    "try-it": "if 2",
  },
  s04: {
    problem: "start",
    idea: "child",
    "1-use-the-same-loop": "start 2",
    "2-run-the-child": "call 2",
    "3-add-the-tool": "back",
    "try-it": "if 5",
  },
  s05: {
    problem: "start",
    idea: "call",
    "2-list-the-descriptions-once": "call",
    "3-load-a-body-on-demand": "run load_skill",
    "try-it": "if 3",
  },
  s06: {
    "what-it-looks-like": "start",
    problem: "run read_file",
    idea: "run read_file 2",
    "1-layer-1-clear-old-results": "cleared",
    "2-layer-2-summarize": "summary",
    "3-layer-3-on-request": "asked",
    "5-what-stays": "line: function unfinishedRequests",
    "6-the-transcript-and---resume": "resume",
    "7-what-recovers": "line: function callWithRecovery",
    "8-what-it-costs": "cold",
    "try-it": "if 2",
  },
};
