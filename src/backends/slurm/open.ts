import { statfs } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname } from "node:path";
import { entryCommand } from "../../entry.ts";
import { systemClock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { BackendContext, OpenBackend } from "../context.ts";
import { joiningBackend } from "../joining/joining.ts";
import { localPlaces } from "../joining/places.ts";
import { engineSteps } from "../local/engine-steps.ts";
import { SlurmClient } from "./client.ts";
import { renderBatchScript } from "./render.ts";

/** Array jobs of a Slurm cluster, of which this machine is a login node. */
export function openSlurm(context: BackendContext): OpenBackend {
  const { environment, executable } = context;
  const client = new SlurmClient({ environment, clock: systemClock });
  const { check, prepare } = engineSteps(context);
  return joiningBackend(
    {
      name: "slurm",
      render: renderBatchScript,
      check: (job) => assertShared(job, client),
      client,
    },
    { program: entryCommand("cli/main", executable), check, prepare },
  );
}

/** File systems of one machine, by the numbers that Linux has for them. */
const localFileSystems: Readonly<Record<number, string>> = {
  61267: "ext4",
  1481003842: "xfs",
  2435016766: "btrfs",
  801189825: "zfs",
  16914836: "tmpfs",
  2240043254: "ramfs",
  2035054128: "overlay",
};

/** @throws SluiceError `DIRECTORY_NOT_SHARED` where nodes cannot see input or output. */
async function assertShared(job: JobSpec, client: SlurmClient): Promise<void> {
  // Asked in any case: without Slurm, nothing is planned.
  const hasOthers = await client.hasOtherHosts(hostname());
  if (!hasOthers || job.slurm?.shared) return;
  for (const [field, place] of localPlaces(job)) {
    const kind = localFileSystems[await fileSystemOf(place)];
    if (kind === undefined) continue;
    throw new SluiceError(
      "DIRECTORY_NOT_SHARED",
      `${place} is on ${kind}, a disk of this machine`,
      {
        field,
        hint: "use a folder that all nodes mount, or s3://bucket/out; if they do see this one, set slurm.shared: true",
      },
    );
  }
}

async function fileSystemOf(place: string): Promise<number> {
  for (let folder = place; ; folder = dirname(folder)) {
    try {
      return (await statfs(folder)).type;
    } catch {
      if (folder === dirname(folder)) return 0;
    }
  }
}
