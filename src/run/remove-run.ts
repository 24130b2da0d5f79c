import type { Storage } from "../data/storage/storage.ts";
import { SluiceError } from "../foundation/errors.ts";
import { sortableId } from "../foundation/ids.ts";
import { Coordinator } from "./coordinate/coordinator.ts";
import type { RunDependencies } from "./dependencies.ts";
import {
  coordinatorPrefix,
  deadLetterPath,
  manifestPathOf,
  partPath,
  partWidth,
  planPath,
  successPath,
} from "./layout.ts";
import type { RunLocation } from "./locate.ts";
import type { Plan } from "./plan.ts";

/**
 * Removes a run: only files that its plan and its commits name, and its state. The seal goes first,
 * so that a kill half way leaves nothing that looks finished. Nobody else can rule meanwhile.
 *
 * @throws SluiceError `COORDINATOR_LIVES` while the run is being worked on, `OUTPUT_OCCUPIED` when
 *   the directory holds something else as well; nothing is removed then.
 */
export async function removeRun(
  dependencies: RunDependencies,
  location: RunLocation,
  plan: Plan,
): Promise<void> {
  const { clock, random, processes, openStorage } = dependencies;
  const storage = openStorage(location.directory);
  await assertOnlyOurs(storage, plan);
  const id = sortableId(clock, random);
  const coordinator = await Coordinator.rule({ storage, clock, processes, id, job: plan.job });
  try {
    await removeResults(storage, plan);
    if (plan.mergedFile !== null) await openStorage(location.outside).remove(plan.mergedFile);
    const isLast = (path: string) =>
      path === planPath || path.startsWith(coordinatorPrefix) || path.startsWith(stdinPrefix);
    await removeListed(storage, "_sluice/", (path) => !isLast(path));
    // Until here the directory is known as this run's, and ruled by this process.
    await storage.remove(planPath);
    await removeListed(storage, coordinatorPrefix, () => true);
  } catch (error) {
    await coordinator.end();
    throw error;
  }
}

async function removeResults(storage: Storage, plan: Plan): Promise<void> {
  await storage.remove(successPath);
  for (let generation = 1; await storage.stat(manifestPathOf(generation)); generation++) {
    await storage.remove(manifestPathOf(generation));
  }
  const width = partWidth(plan.tasks.count);
  for (let task = 0; task < plan.tasks.count; task++) {
    await storage.remove(partPath(task, width));
    await storage.remove(deadLetterPath(task, width));
  }
}

async function removeListed(
  storage: Storage,
  prefix: string,
  isWanted: (path: string) => boolean,
): Promise<void> {
  const paths: string[] = [];
  for await (const { path } of storage.list(prefix)) if (isWanted(path)) paths.push(path);
  for (const path of paths) await storage.remove(path);
}

// The new run could not lie beside it, and the old one would be gone for nothing.
async function assertOnlyOurs(storage: Storage, plan: Plan): Promise<void> {
  const width = partWidth(plan.tasks.count);
  for await (const { path } of storage.list("")) {
    const task = Number(/(\d+)\.jsonl$/.exec(path)?.[1] ?? plan.tasks.count);
    const isResult =
      task < plan.tasks.count &&
      (path === partPath(task, width) || path === deadLetterPath(task, width));
    if (isResult || /^(_sluice\/|_manifest(\.g\d+)?\.json$|_SUCCESS$)/.test(path)) continue;
    throw new SluiceError("OUTPUT_OCCUPIED", `it holds ${path} beside the run`, {
      file: storage.location,
    });
  }
}

/** Where standard input is spooled, named by its content. */
export const stdinPrefix = "_sluice/stdin-";
