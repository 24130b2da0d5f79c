import type { Command } from "commander";
import { exitCodes } from "../../foundation/error-table.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { counted } from "../../terminal/quantities.ts";
import { type CliIo, write, writeJson } from "../io.ts";
import { openTarget, withRun } from "../run-target.ts";

/** `sluice verify DIR`: recomputes everything that a seal states. */
export function register(command: Command, given: CliIo): void {
  const io = withRun(command, given);
  command
    .option("--json", "print JSON")
    .action((run: string, options: { json?: boolean }) => verify(run, options, io));
}

async function verify(run: string, options: { json?: boolean }, io: CliIo): Promise<void> {
  const { verifyAndMend } = await import("../../run/seal/verify.ts");
  const { storage, outside, dependencies } = await openTarget(run, io);
  const { openStorage } = dependencies;
  const verified = await verifyAndMend({ storage, outside, openStorage }, dependencies);
  const { manifest, damages, checked, mended } = verified;
  if (options.json) {
    const runId = manifest?.runId ?? null;
    await writeJson(io, { intact: damages.length === 0, runId, checked, damages, mended });
    if (damages.length > 0) io.setExitCode(exitCodes.storage);
    return;
  }
  for (const { file, problem } of mended) await write(io, `${file}: ${problem}; it is repaired\n`);
  if (damages.length === 0) {
    const { tasks, rows, bytes } = checked;
    const facts = [counted(tasks, "task"), counted(rows, "row"), counted(bytes, "byte")];
    return write(io, `${facts.join(", ")}: every row accounted for\n`);
  }
  for (const { file, problem } of damages) await write(io, `${file}: ${problem}\n`);
  throw new SluiceError("RUN_DAMAGED", counted(damages.length, "finding"), {
    file: storage.location,
    hint: manifest
      ? "restore these files from a copy, or run the job anew with --overwrite"
      : "a run is verified once it is sealed: sluice status DIR says how far it is",
  });
}
