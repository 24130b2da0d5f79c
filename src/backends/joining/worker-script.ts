import { storeFlags } from "../../data/s3/store-options.ts";
import { quotedWord } from "../../foundation/shown-path.ts";
import type { ShareWork } from "./scheduler.ts";

/** How machines of a scheduler start Sluice. */
export interface WorkerStart {
  /** As words; default: those of the work. */
  command?: readonly string[] | undefined;
  setup?: string | undefined;
}

/** The command of a worker up to its share. */
export const workerWords = ({ job, location }: ShareWork, command: readonly string[]) => [
  ...[...command, "worker", location],
  ...storeFlags(job.store),
];

/**
 * The shell lines of a worker, whose share is that of its index.
 *
 * @param index the variable that holds its index, from 0.
 */
export function workerScript(work: ShareWork, index: string, start: WorkerStart): string {
  const { shares, takers, generation } = work;
  const { command = work.program, setup } = start;
  const isPlain = shares.every((share, at) => share === at);
  const words = workerWords(work, command).map(quotedWord).join(" ");
  const later = generation === 1 ? "" : ` --generation ${generation}`;
  return [
    ...(setup === undefined ? [] : [setup.trimEnd()]),
    ...(isPlain ? [] : [`set -- ${shares.join(" ")}`, `shift "$${index}"`]),
    // Signals reach the worker itself, not a shell around it.
    `exec ${words} --share "$${isPlain ? index : "1"}/${takers}" --prepare${later}`,
    "",
  ].join("\n");
}
