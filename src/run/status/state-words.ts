/**
 * The words for how far a run, a task or a worker is, with what each means. People see no others:
 * tables, summaries and `--json` all take theirs from here.
 */
export const stateWords = Object.freeze({
  pending: "not begun, and not canceled",
  running: "a process that lives is working on it",
  successful: "it is done; a run: sealed, with no more failed rows than it may have",
  failed: "it ended before it was done; a run: also when sealed with too many failed rows",
  canceled: "somebody stopped it before it was done; the same command goes on with it",
});

/** How far a run, a task or a worker is. */
export type StateWord = keyof typeof stateWords;

/** The order in which counts are shown: what needs a look comes first. */
export const stateOrder: readonly StateWord[] = Object.freeze([
  "failed",
  "canceled",
  "successful",
  "running",
  "pending",
]);
