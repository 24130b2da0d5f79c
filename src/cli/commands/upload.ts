import type { Command } from "commander";
import type { CliIo } from "../io.ts";
import { withStoreFlags } from "../store-flags.ts";
import { type TransferFlags, transfer } from "../transfer.ts";

/** `sluice upload DIR s3://…`: copies a folder into a bucket. */
export function register(command: Command, given: CliIo): void {
  const io = withStoreFlags(command, given);
  command
    .argument("<from>", "a local folder or file")
    .argument("<to>", "s3://BUCKET/PREFIX, r2://… or gs://…")
    .option("--overwrite", "replace objects with another content")
    .addHelpText(
      "after",
      "\nFiles that are there with the same content are not copied again: after a stop, the same" +
        "\ncommand continues. Nothing is ever deleted. The last line is JSON.",
    )
    .action((from: string, to: string, flags: TransferFlags) => upload(from, to, flags, io));
}

async function upload(from: string, to: string, flags: TransferFlags, io: CliIo): Promise<void> {
  const { upload: uploadFiles } = await import("../../data/transfer/upload.ts");
  const { absoluteLocation } = await import("../../data/storage/open.ts");
  const folder = absoluteLocation(io.workingDirectory, from);
  await transfer("upload", from, flags, io, (context, options) =>
    uploadFiles(folder, to, context, options),
  );
}
