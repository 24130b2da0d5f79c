import type { Storage } from "../data/storage/storage.ts";
import { SluiceError } from "../foundation/errors.ts";
import { sortableId } from "../foundation/ids.ts";
import { Coordinator } from "./coordinate/coordinator.ts";
import { lookAtLives } from "./coordinate/lives.ts";
import type { RunDependencies } from "./dependencies.ts";
import {
  coordinatorPrefix,
  deadLetterPath,
  generationPrefix,
  partPath,
  planPath,
  reportPath,
  sealsPrefix,
  successPath,
} from "./layout.ts";
import type { RunLocation } from "./locate.ts";
import { madeOutputs } from "./output/made-outputs.ts";
import { outputStorage } from "./output/plan-outputs.ts";
import { publishedForm } from "./output/published-form.ts";
import { type Plan, partDigits } from "./plan.ts";
import { readJson } from "./records.ts";
import { standingPlan } from "./seal/standing-plan.ts";

/**
 * Removes a run: only files that its plan and its commits name, and its state. The seal goes first,
 * so that a kill half way leaves nothing that looks finished. Nobody else can rule meanwhile.
 *
 * @param kept paths of inputs that stay: what the next run reads.
 * @param assertRemovable called when nobody else can work on it any more; what it throws prevents
 *   the removal.
 * @throws SluiceError `COORDINATOR_LIVES` while a coordinator or a worker is at work on the run,
 *   `COORDINATOR_LOST` when another one replaced it meanwhile, `OUTPUT_OCCUPIED` when the directory
 *   holds something else as well; nothing is removed then.
 */
export async function removeRun(
  dependencies: RunDependencies,
  location: RunLocation,
  plan: Plan,
  kept: readonly string[] = [],
  assertRemovable: () => Promise<void> = async () => {},
): Promise<void> {
  const { clock, random, processes, openStorage } = dependencies;
  const storage = openStorage(location.directory);
  await assertOnlyOurs(storage, plan);
  const id = sortableId(clock, random);
  const coordinator = await Coordinator.rule({ storage, clock, processes, id, job: plan.job });
  try {
    await assertStands(storage, plan);
    await assertNoWorkers(storage, dependencies);
    await assertRemovable();
    const whole = await wholePlan(storage, plan);
    await coordinator.remove([successPath, ...(await pathsUnder(storage, sealsPrefix(plan)))]);
    await coordinator.remove(await resultPaths(storage, whole));
    const outside = openStorage(location.outside);
    const files = [plan.mergedFile, plan.errorFile].filter((name) => typeof name === "string");
    await coordinator.remove(files, outside);
    if (whole.outputs) {
      const target = outputStorage(whole.outputs.base, { storage, outside, openStorage });
      await coordinator.remove(await madeOutputs(storage, whole), target);
    }
    const isLast = (path: string) =>
      path === planPath || path.startsWith(coordinatorPrefix) || path.startsWith(stdinPrefix);
    const state = await pathsUnder(storage, "_sluice/");
    const spools = spooledInputs(plan, location).filter(
      (path) => !kept.includes(`${location.directory}/${path}`),
    );
    await coordinator.remove([...state.filter((path) => !isLast(path)), ...spools]);
    // Until here the directory is known as this run's, and ruled by this process.
    await coordinator.remove([planPath]);
    await coordinator.stopHeartbeat();
    for (const path of await pathsUnder(storage, coordinatorPrefix)) await storage.remove(path);
  } catch (error) {
    await coordinator.end();
    throw error;
  }
}

// Another process may have replaced it while this one slept, or waited for the rule.
async function assertStands(storage: Storage, { runId }: Plan): Promise<void> {
  const standing = await readJson<Plan>(storage, planPath);
  if (standing && standing.runId !== runId) {
    throw new SluiceError("COORDINATOR_LOST", `run ${runId} was replaced by ${standing.runId}`);
  }
}

// Workers that a scheduler started have no coordinator; what they write would come back.
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

/** The plan with all tasks that the run has, or that a retry of it began to add. */
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
    const task = Number(/part-(\d+)\./.exec(path)?.[1] ?? plan.tasks.count);
    const isResult =
      task < plan.tasks.count &&
      (path === partPath(task, width, ending) || path === deadLetterPath(task, width));
    if (isResult || /^(_sluice\/|_manifest(\.g\d+)?\.json$|_report\.json$|_SUCCESS$)/.test(path))
      continue;
    throw new SluiceError("OUTPUT_OCCUPIED", `it holds ${path} beside the run`, {
      file: storage.location,
    });
  }
}

/** Where standard input is spooled, named by its content. */
export const stdinPrefix = "_sluice/stdin-";

/** Standard input of a run, as files of its own directory. */
export function spooledInputs({ job }: Plan, { directory }: RunLocation): string[] {
  return job.input.flatMap(({ path }) =>
    path.startsWith(`${directory}/${stdinPrefix}`) ? path.slice(directory.length + 1) : [],
  );
}
