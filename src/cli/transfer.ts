import type {
  TransferCounts,
  TransferOptions,
  TransferSummary,
} from "../data/transfer/transfer.ts";
import type { TransferContext } from "../data/transfer/upload.ts";
import { SluiceError } from "../foundation/errors.ts";
import type { CliIo } from "./io.ts";
import { write } from "./io.ts";
import { counted } from "./quantities.ts";

/** Options of `sluice upload` and `sluice download`. */
export interface TransferFlags {
  overwrite?: boolean;
}

/**
 * Carries a transfer out: progress on stderr, a line of JSON at the end of stdout. Ctrl-C stops it;
 * the same command goes on.
 *
 * @throws SluiceError `TARGET_DIFFERS` after all else was moved, and what `move` throws.
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
      import("./download-progress.ts"),
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
    await write(io, `${JSON.stringify({ ...summary, seconds })}\n`);
    if (summary.differentFiles > 0) throw differs(summary);
  });
}

function differs({ differentFiles, different }: TransferSummary): SluiceError {
  const more = differentFiles > different.length ? ", …" : "";
  return new SluiceError("TARGET_DIFFERS", `${differentFiles}: ${different.join(", ")}${more}`);
}
