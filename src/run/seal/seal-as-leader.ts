import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import { committedTasks } from "../attempt/commits.ts";
import { pricesOf } from "../bill/costs.ts";
import { Coordinator, leadingCoordinator } from "../coordinate/coordinator.ts";
import type { RunDependencies } from "../dependencies.ts";
import { runStorage } from "../directory/run-storage.ts";
import { readPlan } from "../plan/plan.ts";
import { type RunContext, runContext } from "../run-context.ts";
import type { RunEvent } from "../status/events.ts";
import type { RunWorkerOptions } from "../worker/run-worker.ts";
import type { Manifest } from "./manifest.ts";
import { completeSeal } from "./publish-seal.ts";
import { sealRun } from "./seal.ts";

type SealTarget = Pick<RunWorkerOptions, "location" | "dependencies">;

/**
 * Seals a run with this process as its leader, so that two finishing processes do not both write.
 *
 * @throws SluiceError `COORDINATOR_LIVES`, and errors of `sealRun`.
 */
export async function sealAsLeader({ location, dependencies }: SealTarget): Promise<Manifest> {
  const id = sortableId(dependencies.clock, dependencies.random);
  const storage = runStorage(dependencies.openStorage(location.directory));
  const plan = await readPlan(storage);
  return await leadAndSeal(runContext(location, plan, dependencies, id, storage), dependencies);
}

async function leadAndSeal(context: RunContext, { processes }: RunDependencies): Promise<Manifest> {
  const { storage, plan, clock, worker: id } = context;
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
 * @param storage of the run that it worked on.
 * @param isCommitted true if every task is known to be committed; else they are counted.
 * @returns the seal, if this process created it.
 */
export async function sealIfComplete(
  { location, dependencies, generation }: SealTarget & { generation: number },
  storage: Storage,
  onEvent: (event: RunEvent) => void,
  isCommitted: boolean,
): Promise<Manifest | undefined> {
  if (generation !== 1) return undefined;
  const plan = await readPlan(storage);
  const { count } = plan.tasks;
  const committed = isCommitted ? count : (await committedTasks(storage, plan)).size;
  if (committed < count) {
    onEvent({ type: "notice", message: `${committed} of ${count} tasks are committed` });
    return undefined;
  }
  const id = sortableId(dependencies.clock, dependencies.random);
  const context = runContext(location, plan, dependencies, id, storage);
  // Leading a run that is sealed would keep a retry from it for nothing.
  if (await completeSeal(context, plan, dependencies)) {
    onEvent({ type: "notice", message: "another process has sealed the run" });
    return undefined;
  }
  try {
    const sealed = await leadAndSeal(context, dependencies);
    const { total, failed } = sealed.rows;
    const manifest = `${location.directory}/_manifest.json`;
    onEvent({ type: "run-seal", manifest, rows: total, failed });
    const message = `the run is sealed: ${location.directory}`;
    onEvent({ type: "notice", message });
    return sealed;
  } catch (error) {
    if (asSluiceError(error).code !== "COORDINATOR_LIVES") throw error;
    onEvent({ type: "notice", message: "another process is sealing the run" });
    return undefined;
  }
}
