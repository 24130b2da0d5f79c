import type {
  TransferCounts,
  TransferOptions,
  TransferSummary,
} from "../data/transfer/transfer.ts";
import type { TransferContext } from "../data/transfer/upload.ts";
import { errorFromRecord, SluiceError } from "../foundation/errors.ts";
import { counted } from "../terminal/quantities.ts";
import { type CliIo, writeJson } from "./io.ts";

/** Options of `sluice upload` and `sluice download`. */
export interface TransferFlags {
  overwrite?: boolean;
}

/**
 * Carries out a transfer: progress on stderr, a line of JSON at the end of stdout. Ctrl-C stops it;
 * the same command continues it.
 *
 * @throws SluiceError `TARGET_DIFFERS`, or the error of a file, after all others were moved; and
 *   errors of `move`.
 */
export async function transfer(
  name: string,
  place: string,
  flags: TransferFlags,
  io: CliIo,
  move: (context: TransferContext, options: TransferOptions) => Promise<TransferSummary>,
): Promise<void> {
  const [{ runDependencies }, { storeFromEnvironment }, { untilStopped }, { downloadReporter }] =
    await Promise.all([
      import("../api/run-dependencies.ts"),
      import("../data/s3/store-options.ts"),
      import("./download-context.ts"),
      import("../terminal/download-progress.ts"),
    ]);
  const reporter = downloadReporter(io);
  await untilStopped(io, async ({ clock, random, environment, logger, signal }) => {
    const { inputs } = runDependencies(io, logger);
    const stores = { clock, random, environment, store: storeFromEnvironment(environment) };
    const onProgress = ({ bytes, files, skippedFiles }: TransferCounts) =>
      reporter.report({
        name: `${name}: ${counted(files + skippedFiles, "file")}`,
        source: place,
        bytes,
      });
    const options = { overwrite: flags.overwrite ?? false, signal: signal!, onProgress };
    const begunMs = clock.monotonic();
    let summary: TransferSummary;
    try {
      summary = await move({ inputs, stores }, options);
    } finally {
      reporter.clear();
    }
    const seconds = Math.round(clock.monotonic() - begunMs) / 1000;
    await writeJson(io, { ...summary, seconds });
    if (summary.leftOut > 0) {
      const what = "links to folders or nowhere, pipes";
      io.stderr.write(`note: ${counted(summary.leftOut, "name")} left out: ${what}\n`);
    }
    const problem = problemOf(summary);
    if (problem) throw problem;
  });
}

/** The final error of the command: the first failed file, or the files that differ. */
function problemOf(summary: TransferSummary): SluiceError | undefined {
  const { failedFiles, failures, differentFiles, different } = summary;
  if (failures[0]) {
    const error = errorFromRecord(failures[0]);
    if (failedFiles > 1) error.message += `; ${failedFiles - 1} more failed, see the JSON`;
    return error;
  }
  if (differentFiles === 0) return undefined;
  const more = differentFiles > different.length ? ", …" : "";
  return new SluiceError("TARGET_DIFFERS", `${differentFiles}: ${different.join(", ")}${more}`);
}
