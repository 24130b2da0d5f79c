import type { Command } from "commander";
import { counted, sized } from "../../terminal/quantities.ts";
import { type CliIo, write } from "../io.ts";
import { openTarget, withRun } from "../run-target.ts";

/** `sluice clean DIR`: removes what a sealed run no longer needs. */
export function register(command: Command, given: CliIo): void {
  const io = withRun(command, given);
  command
    .option("--dry-run", "only say what would be removed")
    .action((run: string, options: { dryRun?: boolean }) => clean(run, options, io));
}

async function clean(run: string, options: { dryRun?: boolean }, io: CliIo): Promise<void> {
  const { cleanRun } = await import("../../run/clean.ts");
  const { dependencies, location } = await openTarget(run, io);
  const isDryRun = options.dryRun ?? false;
  const cleaning = await cleanRun(dependencies, location, isDryRun);
  const { files, freedBytes, publishedBytes, mayReturn } = cleaning;
  if (mayReturn) {
    const { pid, host } = mayReturn;
    io.stderr.write(
      `the files that results are made of stay: process ${pid} on ${host} did not report its end, ` +
        "and may still write\n",
    );
  }
  if (files === 0) return write(io, "there is nothing to remove\n");
  const [removed, freed] = isDryRun ? ["would remove", "to be freed"] : ["removed", "freed"];
  const stays = `; ${sized(publishedBytes)} stay under their published names`;
  const facts = `${removed} ${counted(files, "file")}: ${sized(freedBytes)} ${freed}`;
  await write(io, `${facts}${publishedBytes > 0 ? stays : ""}\n`);
}
