import type { Command } from "commander";
import { counted } from "../../terminal/quantities.ts";
import { type CliIo, write } from "../io.ts";
import { openTarget, withRun } from "../run-target.ts";

/** `sluice seal DIR`: seals a run whose tasks are all committed. */
export function register(command: Command, given: CliIo): void {
  const io = withRun(command, given);
  command.action((run: string) => seal(run, io));
}

async function seal(run: string, io: CliIo): Promise<void> {
  const [{ assertAllCommitted }, { sealAsLeader }, { readManifest }] = await Promise.all([
    import("../../run/attempt/commits.ts"),
    import("../../run/seal/seal-as-leader.ts"),
    import("../../run/seal/seals.ts"),
  ]);
  const { location, dependencies, storage } = await openTarget(run, io);
  const standing = await readManifest(storage);
  if (!standing) await assertAllCommitted(storage);
  const { rows, runId } = await sealAsLeader({ location, dependencies });
  const facts = `${counted(rows.total, "row")}, ${counted(rows.failed, "failed row")}`;
  await write(io, `run ${runId} ${standing ? "was sealed already" : "is sealed"}: ${facts}\n`);
}
