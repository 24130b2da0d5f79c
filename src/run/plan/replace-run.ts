import { removeAll } from "../../data/storage/remove-all.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import { Coordinator } from "../coordinate/coordinator.ts";
import { lookAtLives } from "../coordinate/lives.ts";
import { asMender } from "../coordinate/menders.ts";
import type { RunDependencies } from "../dependencies.ts";
import {
  coordinatorPrefix,
  deadLetterPath,
  generationPrefix,
  menderPrefix,
  partPath,
  planPath,
  reportPath,
  statePrefix,
  stdinPrefix,
  successPath,
  taskOfResult,
} from "../directory/layout.ts";
import type { RunLocation } from "../directory/locate.ts";
import { readJson } from "../directory/records.ts";
import type { RunStorage } from "../directory/run-storage.ts";
import type { JobSpec } from "../job/schema.ts";
import { madeOutputs, outputStorage } from "../output/plan-outputs.ts";
import { publishedForm } from "../output/published-form.ts";
import { cancelReplacedBatches } from "../provider-batches/provider-side.ts";
import { type Plan, partDigits, readPlan, standingPlan } from "./plan.ts";

export interface Replacement {
  /** Called when no other process can work on the old run any more; throws to prevent it. */
  assertRemovable?(): Promise<void>;
  /**
   * Plans the new run in its own storage; `isOurs` is true if it is the one that stands.
   *
   * @param assertReplaces called right before the plan appears; throws to prevent it.
   */
  planIn(
    storage: RunStorage,
    assertReplaces: () => Promise<void>,
  ): Promise<{ plan: Plan; isOurs: boolean }>;
}

/**
 * Replaces a run: plans the new run under the next number, and removes the old one's state and the
 * files that its plan and its commits name. No process can lead the old run meanwhile. An
 * interrupted removal is finished by the first process that works on the new run.
 *
 * @throws SluiceError `COORDINATOR_LIVES` while a coordinator or a worker works on the run,
 *   `COORDINATOR_LOST` if another process replaced it meanwhile, `OUTPUT_OCCUPIED` if the directory
 *   holds other files as well, and errors of `planIn`; nothing is removed then.
 */
export async function replaceRun(
  dependencies: RunDependencies,
  location: RunLocation,
  storage: RunStorage,
  plan: Plan,
  { assertRemovable, planIn }: Replacement,
): Promise<{ plan: Plan; isOurs: boolean; storage: RunStorage }> {
  const { clock, random, processes } = dependencies;
  await assertOnlyOurs(storage, plan);
  const id = sortableId(clock, random);
  const coordinator = await Coordinator.lead({ storage, clock, processes, id, job: plan.job });
  try {
    await assertNoWorkers(storage, dependencies);
    await assertRemovable?.();
    const next = storage.of((await storage.number) + 1);
    const planned = await planIn(next, async () => {
      await coordinator.assertLeads();
      await assertRemovable?.();
    });
    if (planned.isOurs) await finishReplacement(dependencies, location, next);
    return { ...planned, storage: next };
  } finally {
    await coordinator.end();
  }
}

/**
 * Removes what is left of the replaced runs. Every process that works on a run calls it before.
 *
 * Results of both have the same names: a process that pauses here may wake when this run has some.
 *
 * @param wanted a job that may take this run's place next: its input stays.
 */
export async function finishReplacement(
  dependencies: RunDependencies,
  location: RunLocation,
  storage: RunStorage,
  wanted?: Pick<JobSpec, "input">,
): Promise<void> {
  if ((await storage.oldestLeft()) === undefined) return;
  await asMender(storage, dependencies, async () => {
    const oldest = await storage.oldestLeft();
    if (oldest === undefined) return;
    const { job } = await readPlan(storage);
    const kept = [job, wanted ?? job].flatMap(({ input }) => input.map(({ path }) => path));
    const number = await storage.number;
    for (let old = oldest; old < number; old++) {
      await removeRun(dependencies, location, storage.of(old), kept);
    }
    await storage.noteCleared();
  });
}

/**
 * Removes the files of a replaced run, except its plan and its coordinators' records, which tell a
 * late process of that run that it is over, and which process may still be mending.
 *
 * @param kept input paths that stay: the new run reads them, or the next one.
 */
async function removeRun(
  { openStorage, engineContext, logger }: RunDependencies,
  location: RunLocation,
  storage: RunStorage,
  kept: readonly string[],
): Promise<void> {
  const plan = await readPlan(storage);
  // Before their records are gone.
  if (engineContext) await cancelReplacedBatches(storage, plan, engineContext(), logger);
  const whole = await wholePlan(storage, plan);
  const outside = openStorage(location.outside);
  const published = await resultPaths(storage, whole);
  await removeAll(storage, [successPath, ...published]);
  const files = [plan.mergedFile, plan.errorFile].filter((name) => typeof name === "string");
  await removeAll(outside, files);
  if (whole.outputs) {
    const target = outputStorage(whole.outputs.base, { storage, outside, openStorage });
    await removeAll(target, await madeOutputs(storage, whole));
  }
  const state = await pathsUnder(storage, statePrefix);
  const stays = (path: string) =>
    path === planPath || path.startsWith(coordinatorPrefix) || path.startsWith(menderPrefix);
  await removeAll(
    storage,
    state.filter((path) => !stays(path)),
  );
  const spools = spooledInputs(plan, location).filter(
    (path) => !kept.includes(`${location.directory}/${path}`),
  );
  await removeAll(storage, spools);
  // Files that processes of that run published while it still existed.
  await removeAll(storage, published);
}

// Workers that a scheduler started have no coordinator; their files would come back.
async function assertNoWorkers(
  storage: Storage,
  { clock, processes }: RunDependencies,
): Promise<void> {
  const { workers } = await lookAtLives(storage, { clock, processes });
  const living = workers.find(({ lives }) => lives);
  if (!living) return;
  const { pid, host } = living.record;
  throw new SluiceError("COORDINATOR_LIVES", `worker process ${pid} on ${host}`);
}

async function resultPaths(storage: Storage, plan: Plan): Promise<string[]> {
  const paths = [...(await pathsUnder(storage, "_manifest")), reportPath];
  const width = partDigits(plan);
  const { ending } = publishedForm(plan);
  for (let task = 0; task < plan.tasks.count; task++) {
    paths.push(partPath(task, width, ending), deadLetterPath(task, width));
  }
  return paths;
}

/** The plan with all tasks of the run, or those that a retry of it began to add. */
async function wholePlan(storage: Storage, plan: Plan): Promise<Plan> {
  let standing = plan;
  for (const path of await pathsUnder(storage, generationPrefix)) {
    if (!path.endsWith("/plan.json")) continue;
    const { whole, generation } = (await readJson<Plan>(storage, path)) ?? plan;
    if (whole && whole.tasks.count >= standing.tasks.count) {
      standing = await standingPlan(storage, generation);
    }
  }
  return standing;
}

async function pathsUnder(storage: Storage, prefix: string): Promise<string[]> {
  const paths: string[] = [];
  for await (const { path } of storage.list(prefix)) paths.push(path);
  return paths;
}

// The new run could not lie beside it, and the old one would be gone for nothing.
async function assertOnlyOurs(storage: Storage, first: Plan): Promise<void> {
  const plan = await wholePlan(storage, first);
  const width = partDigits(plan);
  const { ending } = publishedForm(plan);
  const outputs = new Set(plan.outputs?.base === "run" ? await madeOutputs(storage, plan) : []);
  for await (const { path } of storage.list("")) {
    if (outputs.has(path)) continue;
    const task = taskOfResult(path, width, ending);
    const isResult = task !== undefined && task < plan.tasks.count;
    if (isResult || /^(_sluice\/|_manifest(\.g\d+)?\.json$|_report\.json$|_SUCCESS$)/.test(path))
      continue;
    throw new SluiceError("OUTPUT_OCCUPIED", `it holds ${path} beside the run`, {
      file: storage.location,
    });
  }
}

/** Paths of result files that a run may have made, with their base. */
export async function standingOutputs(storage: Storage, plan: Plan): Promise<Set<string>> {
  return new Set(await madeOutputs(storage, await wholePlan(storage, plan)));
}

/** Spooled standard input of a run, as files of its own directory. */
export function spooledInputs({ job }: Plan, { directory }: RunLocation): string[] {
  return job.input.flatMap(({ path }) =>
    path.startsWith(`${directory}/${stdinPrefix}`) ? path.slice(directory.length + 1) : [],
  );
}
