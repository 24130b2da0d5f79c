import type { PackageContext } from "../engines/packages/packages.ts";
import { prepareEngine as prepare } from "../engines/prepare-engine.ts";
import type { JobSpec } from "../run/job/schema.ts";
import { downloadReporter } from "./download-progress.ts";
import type { CliIo } from "./io.ts";

/**
 * Makes sure that what the job's engine needs is on this machine, before workers start, and shows
 * what is fetched.
 *
 * @throws what `prepareEngine` of the engines throws.
 */
export async function prepareEngine(
  job: JobSpec,
  context: PackageContext,
  io: CliIo,
  install: boolean,
): Promise<void> {
  const reporter = downloadReporter(io);
  try {
    await prepare(job.model, context, {
      install,
      onProgress: reporter.report,
      onWait: (what) => io.stderr.write(`waiting for another process that fetches ${what}\n`),
    });
  } finally {
    reporter.clear();
  }
}
