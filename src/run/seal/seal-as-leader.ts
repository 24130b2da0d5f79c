import { asSluiceError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import { pricesOf } from "../bill/costs.ts";
import { Coordinator, leadingCoordinator } from "../coordinate/coordinator.ts";
import { runStorage } from "../directory/run-storage.ts";
import { readPlan } from "../plan/plan.ts";
import { runContext } from "../run-context.ts";
import type { RunEvent } from "../status/events.ts";
import type { RunWorkerOptions } from "../worker/run-worker.ts";
import { committedTasks } from "./commits.ts";
import type { Manifest } from "./manifest.ts";
import { completeSeal } from "./publish-seal.ts";
import { sealRun } from "./seal.ts";

type SealTarget = Pick<RunWorkerOptions, "location" | "dependencies" | "generation">;

/**
 * Seals a run with this process as its leader, so that two finishing processes do not both write.
 *
 * @throws SluiceError `COORDINATOR_LIVES`, and errors of `sealRun`.
 */
export async function sealAsLeader({ location, dependencies }: SealTarget): Promise<Manifest> {
  const { clock, random, processes } = dependencies;
  const id = sortableId(clock, random);
  const storage = runStorage(dependencies.openStorage(location.directory));
  const plan = await readPlan(storage);
  const context = runContext(location, plan, dependencies, id, storage);
  // The failures that the last coordinator allowed count for the seal as well.
  const job = (await leadingCoordinator(storage))?.job ?? plan.job;
  const coordinator = await Coordinator.lead({ storage, clock, processes, id, job });
  try {
    const assertLeads = () => coordinator.assertLeads();
    const options = { engine: null, prices: pricesOf(job), assertLeads };
    return await sealRun(context, { ...options, look: "contents" });
  } finally {
    await coordinator.end();
  }
}

/**
 * The end of the worker that finishes last: it seals, unless another process does.
 *
 * @returns the seal, if this process created it.
 */
export async function sealIfComplete(
  target: SealTarget,
  onEvent: (event: RunEvent) => void,
): Promise<Manifest | undefined> {
  if (target.generation !== 1) return undefined;
  const storage = runStorage(target.dependencies.openStorage(target.location.directory));
  const plan = await readPlan(storage);
  const committed = await committedTasks(storage, plan);
  if (committed.size < plan.tasks.count) {
    const message = `${committed.size} of ${plan.tasks.count} tasks are committed`;
    onEvent({ type: "notice", message });
    return undefined;
  }
  const { dependencies, location } = target;
  const id = sortableId(dependencies.clock, dependencies.random);
  const context = runContext(location, plan, dependencies, id, storage);
  // Leading a run that is sealed would keep a retry from it for nothing.
  if (await completeSeal(context, plan, dependencies)) {
    onEvent({ type: "notice", message: "another process has sealed the run" });
    return undefined;
  }
  try {
    const sealed = await sealAsLeader(target);
    const { total, failed } = sealed.rows;
    const manifest = `${target.location.directory}/_manifest.json`;
    onEvent({ type: "run-seal", manifest, rows: total, failed });
    const message = `the run is sealed: ${target.location.directory}`;
    onEvent({ type: "notice", message });
    return sealed;
  } catch (error) {
    if (asSluiceError(error).code !== "COORDINATOR_LIVES") throw error;
    onEvent({ type: "notice", message: "another process is sealing the run" });
    return undefined;
  }
}
