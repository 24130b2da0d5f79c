import type { Storage } from "../../data/storage/storage.ts";
import { errorTable } from "../../foundation/error-table.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { type LookOptions, lookAtLives } from "../coordinate/lives.ts";
import { attemptPrefix, commitPrefix, generationPrefix } from "../directory/layout.ts";
import { standingSample } from "../preview/standing-sample.ts";
import type { Plan } from "./plan.ts";

/**
 * True of a run that was begun and came to nothing: no row has an outcome, and nobody works on it.
 * One that was only planned waits for its workers, and is none.
 */
export async function cameToNothing(storage: Storage, options: LookOptions): Promise<boolean> {
  if (await holdsOutcomes(storage)) return false;
  const { coordinator, workers } = await lookAtLives(storage, options);
  return coordinator !== undefined && ![coordinator, ...workers].some(({ lives }) => lives);
}

/** True where a run directory has anything that somebody may have paid for. */
export async function holdsOutcomes(storage: Storage): Promise<boolean> {
  for await (const { path, bytes } of storage.list("")) {
    if (!path.startsWith("_sluice/") || path.startsWith(commitPrefix)) return true;
    if (path.startsWith(generationPrefix)) return true;
    if (path.startsWith(attemptPrefix) && bytes > 0) return true;
  }
  return false;
}

/** The refusal of a job that is not the one of the run that stands; says what that run has. */
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
    // The run differs all the same, and that is what is to be told.
    return undefined;
  }
}
