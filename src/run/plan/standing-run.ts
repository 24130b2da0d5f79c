import type { Storage } from "../../data/storage/storage.ts";
import { errorTable } from "../../foundation/error-table.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { type LookOptions, lookAtLives } from "../coordinate/lives.ts";
import {
  attemptPrefix,
  commitPrefix,
  generationPrefix,
  providerBatchesPrefix,
} from "../directory/layout.ts";
import { standingSample } from "../preview/standing-sample.ts";
import type { Plan } from "./plan.ts";

/**
 * True for a run that came to nothing: no row has an outcome, and no process works on it. A run
 * that was only planned does not count, because it waits for its workers.
 */
export async function cameToNothing(storage: Storage, options: LookOptions): Promise<boolean> {
  if (await holdsOutcomes(storage)) return false;
  const { coordinator, workers } = await lookAtLives(storage, options);
  return coordinator !== undefined && ![coordinator, ...workers].some(({ lives }) => lives);
}

/** True if a run directory has anything that may have been paid for. */
export async function holdsOutcomes(storage: Storage): Promise<boolean> {
  for await (const { path, bytes } of storage.list("")) {
    if (!path.startsWith("_sluice/") || path.startsWith(commitPrefix)) return true;
    if (path.startsWith(generationPrefix) || path.startsWith(providerBatchesPrefix)) return true;
    if (path.startsWith(attemptPrefix) && bytes > 0) return true;
  }
  return false;
}

/** The refusal of a job that differs from that of the present run; says what that run has. */
export async function runDiffers(storage: Storage, plan: Plan, keys: string): Promise<SluiceError> {
  const { hint } = errorTable.RUN_DIFFERS;
  const done = await rowsDone(storage, plan);
  return new SluiceError("RUN_DIFFERS", `it differs in ${keys}`, {
    file: storage.location,
    hint: done === undefined ? hint : `it has ${done} of ${plan.rows} rows done; ${hint}`,
  });
}

async function rowsDone(storage: Storage, plan: Plan): Promise<number | undefined> {
  try {
    return (await standingSample({ storage, plan })).rowsDone;
  } catch {
    // The runs differ anyway, and that is the message.
    return undefined;
  }
}
