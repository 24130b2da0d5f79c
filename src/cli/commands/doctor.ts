import type { Command } from "commander";
import { exitCodes } from "../../foundation/error-table.ts";
import { table } from "../../terminal/table.ts";
import { type Check, doctorChecks } from "../doctor-checks.ts";
import { type CliIo, write } from "../io.ts";
import { withStoreFlags } from "../store-flags.ts";

/** `sluice doctor`: what works on this machine and what is missing. */
export function register(command: Command, given: CliIo): void {
  const io = withStoreFlags(command, given);
  command
    .option("--output <directory>", "where to write runs; default: here")
    .option("--json", "print JSON")
    .action(async (options: { output?: string; json?: boolean }) => {
      const checks = await doctorChecks(io, options.output ?? ".");
      const isSound = checks.every((check) => check.state !== "missing");
      const asJson = () => `${JSON.stringify({ sound: isSound, checks }, null, 2)}\n`;
      await write(io, options.json ? asJson() : asText(checks, isSound));
      if (!isSound) io.setExitCode(exitCodes.engineUnavailable);
    });
}

function asText(checks: readonly Check[], isSound: boolean): string {
  const rows = checks.map(({ name, state, detail }) => [name, state, detail]);
  const lines = table(["what", "state", "detail"], rows);
  const hints = checks.flatMap(({ name, hint }) => (hint ? [`${name}: ${hint}`] : []));
  const verdict = isSound ? "Sluice can run here." : "Something that Sluice needs is missing.";
  return [...lines, "", ...hints, verdict, ""].join("\n");
}
