import { Worker } from "node:worker_threads";
import { limits } from "../../foundation/limits.ts";

/** Runs in a thread of its own, with nothing but Node's own modules. */
const watch = `
const { parent, intervalMs } = require("node:worker_threads").workerData;
setInterval(() => {
  if (process.ppid !== parent) process.kill(process.pid, "SIGKILL");
}, intervalMs);
`;

/**
 * Ends this process soon after its parent is gone, whatever it does then: user code that computes
 * without a pause, or for ever, never gets to hear that its channel has closed.
 *
 * @param parent process id of the parent.
 */
export function endWithParent(parent: number): void {
  const workerData = { parent, intervalMs: limits.parentWatchIntervalMs };
  // It must not keep a process that has nothing more to do.
  new Worker(watch, { eval: true, workerData }).unref();
}
