import type { Command } from "commander";
import { SluiceError } from "../../foundation/errors.ts";
import { silentLogger } from "../../foundation/logger.ts";
import { counted, sized } from "../../terminal/quantities.ts";
import { type CliIo, write, writeJson } from "../io.ts";
import { withStoreFlags } from "../store-flags.ts";

/** `sluice ls s3://…|DIR`: the files below a place. */
export function register(command: Command, given: CliIo): void {
  const io = withStoreFlags(command, given);
  command
    .argument("<place>", "s3://BUCKET/PREFIX, r2://…, gs://…, hf://datasets/OWNER/NAME or a folder")
    .option("--json", "print a line of JSON for each file, and one for all at the end")
    .action((place: string, options: { json?: boolean }) => ls(place, options, io));
}

async function ls(place: string, { json = false }: { json?: boolean }, io: CliIo): Promise<void> {
  const [{ runDependencies }, { absoluteLocation }] = await Promise.all([
    import("../../api/run-dependencies.ts"),
    import("../../data/storage/open.ts"),
  ]);
  const { inputs } = runDependencies(io, silentLogger);
  let files = 0;
  let bytes = 0;
  for await (const file of inputs.list(absoluteLocation(io.workingDirectory, place))) {
    if (io.outputClosed.aborted) return;
    files++;
    bytes += file.bytes;
    const { path, etag } = file;
    const facts = { path, bytes: file.bytes, ...(etag !== undefined && { etag }) };
    await write(
      io,
      `${json ? JSON.stringify(facts) : `${String(file.bytes).padStart(14)}  ${path}`}\n`,
    );
  }
  if (files === 0) throw new SluiceError("INPUT_MISSING", place, { hint: "nothing lies there" });
  if (json) await writeJson(io, { files, bytes });
  else io.stderr.write(`${counted(files, "file")}, ${sized(bytes)}\n`);
}
