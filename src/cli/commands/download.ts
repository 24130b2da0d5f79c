import type { Command } from "commander";
import type { CliIo } from "../io.ts";
import { withStoreFlags } from "../store-flags.ts";
import { type TransferFlags, transfer } from "../transfer.ts";

/** `sluice download s3://… DIR`: copies the files below an address into a folder. */
export function register(command: Command, given: CliIo): void {
  const io = withStoreFlags(command, given);
  command
    .argument("<from>", "s3://BUCKET/PREFIX, r2://…, gs://… or hf://datasets/OWNER/NAME")
    .argument("<to>", "a local folder")
    .option("--overwrite", "replace files with another content")
    .addHelpText(
      "after",
      "\nFiles that are there with the same content are not copied again, and partial files" +
        "\nare completed. Nothing is ever deleted. The last line is JSON.",
    )
    .action((from: string, to: string, flags: TransferFlags) => download(from, to, flags, io));
}

async function download(from: string, to: string, flags: TransferFlags, io: CliIo): Promise<void> {
  const { download: downloadFiles } = await import("../../data/transfer/download.ts");
  const { absoluteLocation } = await import("../../data/storage/open.ts");
  const place = absoluteLocation(io.workingDirectory, from);
  const folder = absoluteLocation(io.workingDirectory, to);
  await transfer("download", from, flags, io, ({ inputs }, options) =>
    downloadFiles(place, folder, inputs, options),
  );
}
