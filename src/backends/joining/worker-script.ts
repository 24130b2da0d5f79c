import { quotedWord } from "../../foundation/shown-path.ts";
import type { ShareWork } from "./scheduler.ts";

/** How machines of a scheduler start Sluice. */
export interface WorkerStart {
  /** As words; default: those of the work. */
  command?: readonly string[] | undefined;
  setup?: string | undefined;
}

/**
 * The shell lines of a worker, whose share is that of its index.
 *
 * @param index the variable that holds its index, from 0.
 */
export function workerScript(work: ShareWork, index: string, start: WorkerStart): string {
  const { location, shares, takers, generation } = work;
  const { command = work.program, setup } = start;
  const isPlain = shares.every((share, at) => share === at);
  const words = [...command, "worker", location].map(quotedWord).join(" ");
  const later = generation === 1 ? "" : ` --generation ${generation}`;
  return [
    ...(setup === undefined ? [] : [setup.trimEnd()]),
    ...(isPlain ? [] : [`set -- ${shares.join(" ")}`, `shift "$${index}"`]),
    // Signals reach the worker itself, not a shell around it.
    `exec ${words} --share "$${isPlain ? index : "1"}/${takers}" --prepare${later}`,
    "",
  ].join("\n");
}
