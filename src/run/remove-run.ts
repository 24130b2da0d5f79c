import { sortableId } from "../foundation/ids.ts";
import { Coordinator } from "./coordinate/coordinator.ts";
import type { RunDependencies } from "./dependencies.ts";
import {
  attemptPrefix,
  commitPrefix,
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
 * so that a kill half way leaves nothing that looks finished.
 *
 * @throws SluiceError `COORDINATOR_LIVES` while the run is being worked on.
 */
export async function removeRun(
  dependencies: RunDependencies,
  location: RunLocation,
  plan: Plan,
): Promise<void> {
  const { clock, random, processes, openStorage } = dependencies;
  const storage = openStorage(location.directory);
  const id = sortableId(clock, random);
  const coordinator = await Coordinator.rule({ storage, clock, processes, id, job: plan.job });
  await coordinator.end();
  await storage.remove(successPath);
  for (let generation = 1; await storage.stat(manifestPathOf(generation)); generation++) {
    await storage.remove(manifestPathOf(generation));
  }
  const width = partWidth(plan.tasks.count);
  for (let task = 0; task < plan.tasks.count; task++) {
    await storage.remove(partPath(task, width));
    await storage.remove(deadLetterPath(task, width));
  }
  if (plan.mergedFile !== null) await openStorage(location.outside).remove(plan.mergedFile);
  for (const prefix of [commitPrefix, attemptPrefix, "_sluice/"]) {
    const paths: string[] = [];
    for await (const { path } of storage.list(prefix)) {
      if (path !== planPath && !path.startsWith(stdinPrefix)) paths.push(path);
    }
    for (const path of paths) await storage.remove(path);
  }
  // Last: until here the directory is still known as this run's.
  await storage.remove(planPath);
}

/** Where standard input is spooled, named by its content. */
export const stdinPrefix = "_sluice/stdin-";
