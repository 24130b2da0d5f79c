import type { PackageContext } from "../engines/packages/packages.ts";
import type { JobSpec } from "../run/job/schema.ts";
import { downloadReporter } from "./download-progress.ts";
import type { CliIo } from "./io.ts";

/**
 * Makes sure that what the job's engine needs is on this machine, before workers start: its package
 * and its model. Says so when something is fetched.
 *
 * @throws SluiceError `ENGINE_MISSING` or `MODEL_MISSING` where `install` is false, else what
 *   fetching throws.
 */
export async function prepareEngine(
  job: JobSpec,
  context: PackageContext,
  io: CliIo,
  install: boolean,
): Promise<void> {
  if (job.model.engine !== "llama") return;
  const { name } = job.model;
  const [{ locateEnginePackage }, { resolveModel }] = await Promise.all([
    import("../engines/packages/packages.ts"),
    import("../engines/models/models.ts"),
  ]);
  const reporter = downloadReporter(io);
  try {
    await locateEnginePackage("llama", context, {
      install,
      onWait: () => io.stderr.write("waiting for another process that adds the llama engine\n"),
      onProgress: (bytes) =>
        reporter.report({ name: "llama engine", source: "npm", bytes, totalBytes: undefined }),
    });
    await resolveModel(name, context, {
      download: install,
      onWait: () => io.stderr.write(`waiting for another process that fetches ${name}\n`),
      onProgress: (progress) => reporter.report(progress),
    });
  } finally {
    reporter.clear();
  }
}
