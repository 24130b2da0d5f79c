import type { PackageContext } from "../engines/packages/packages.ts";
import { prepareEngine as prepare } from "../engines/prepare-engine.ts";
import type { JobSpec } from "../run/job/schema.ts";
import type { Progress } from "./progress.ts";

/**
 * Makes sure that what the job's engine needs is on this machine, before workers start, and shows
 * what is fetched.
 *
 * @throws what `prepareEngine` of the engines throws.
 */
export async function prepareEngine(
  job: JobSpec,
  context: PackageContext,
  { onStep }: Progress,
  install: boolean,
): Promise<void> {
  try {
    await prepare(job.model, context, {
      install,
      onProgress: onStep,
      onWait: (what) => onStep({ text: `waiting for another process that fetches ${what}` }),
    });
  } finally {
    onStep(undefined);
  }
}
