import { asSluiceError } from "../foundation/errors.ts";
import { sortableId } from "../foundation/ids.ts";
import { Coordinator, rulingCoordinator } from "../run/coordinate/coordinator.ts";
import { runContext } from "../run/dependencies.ts";
import { runStorage } from "../run/directory/run-storage.ts";
import { readPlan } from "../run/plan/plan.ts";
import { committedTasks } from "../run/seal/commits.ts";
import type { Manifest } from "../run/seal/manifest.ts";
import { sealRun } from "../run/seal/seal.ts";
import type { ServeOptions } from "../run/worker/serve.ts";
import type { Progress } from "../terminal/progress.ts";
import type { CliIo } from "./io.ts";

type SealTarget = Pick<ServeOptions, "location" | "dependencies" | "generation">;

/**
 * Seals a run under the rule of this process, so that two who finish at once do not both write.
 *
 * @throws SluiceError `COORDINATOR_LIVES`, and what `sealRun` throws.
 */
export async function sealUnderRule({ location, dependencies }: SealTarget): Promise<Manifest> {
  const { clock, random, processes } = dependencies;
  const id = sortableId(clock, random);
  const storage = runStorage(dependencies.openStorage(location.directory));
  const plan = await readPlan(storage);
  const context = runContext(location, plan, dependencies, id, storage);
  // What the last coordinator was asked to allow holds for the seal as well.
  const job = (await rulingCoordinator(storage))?.job ?? plan.job;
  const coordinator = await Coordinator.rule({ storage, clock, processes, id, job });
  try {
    const assertRules = () => coordinator.assertRules();
    const options = { engine: null, prices: job.prices, assertRules };
    return await sealRun(context, { ...options, look: "contents" });
  } finally {
    await coordinator.end();
  }
}

/**
 * What the worker that finishes last does: seals, unless somebody else is doing it.
 *
 * @returns the seal, where it is this process's.
 */
export async function sealIfComplete(
  target: SealTarget,
  io: CliIo,
  progress: Progress,
): Promise<Manifest | undefined> {
  if (target.generation !== 1) return undefined;
  const storage = runStorage(target.dependencies.openStorage(target.location.directory));
  const plan = await readPlan(storage);
  const committed = await committedTasks(storage, plan);
  if (committed.size < plan.tasks.count) {
    const message = `${committed.size} of ${plan.tasks.count} tasks are committed`;
    progress.onEvent({ type: "notice", message });
    return undefined;
  }
  try {
    const sealed = await sealUnderRule(target);
    const { total, failed } = sealed.rows;
    const manifest = `${target.location.directory}/_manifest.json`;
    progress.onEvent({ type: "run-seal", manifest, rows: total, failed });
    const message = `the run is sealed: ${target.location.directory}`;
    progress.onEvent({ type: "notice", message });
    return sealed;
  } catch (error) {
    if (asSluiceError(error).code !== "COORDINATOR_LIVES") throw error;
    io.stderr.write("another process is sealing the run\n");
    return undefined;
  }
}
