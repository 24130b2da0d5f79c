/**
 * The states of a run, a task or a worker, with their meanings. They are the only words for them:
 * tables, summaries and `--json` take theirs from here.
 */
export const stateWords = Object.freeze({
  pending: "not begun, and not canceled",
  running: "a process that lives is working on it",
  successful: "it is done; a run: sealed, with no more failed rows than it may have",
  failed: "it ended before it was done; a run: also when sealed with too many failed rows",
  canceled: "somebody stopped it before it was done; the same command continues it",
});

/** State of a run, a task or a worker. */
export type StateWord = keyof typeof stateWords;

/** The order in which counts are shown: states that need attention come first. */
export const stateOrder: readonly StateWord[] = Object.freeze([
  "failed",
  "canceled",
  "successful",
  "running",
  "pending",
]);
