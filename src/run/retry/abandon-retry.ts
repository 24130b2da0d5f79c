import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import { committedTasks, readCommits } from "../attempt/commits.ts";
import { addPaidAnswers, noPaidAnswers, type PaidAnswers } from "../bill/costs.ts";
import { journaledAnswers, journaledAttempts, journaledLines } from "../bill/journaled.ts";
import { Coordinator } from "../coordinate/coordinator.ts";
import type { RunDependencies } from "../dependencies.ts";
import { planPathOf } from "../directory/layout.ts";
import type { RunLocation } from "../directory/locate.ts";
import { readJson } from "../directory/records.ts";
import { assertStands, runStorage } from "../directory/run-storage.ts";
import { writeOutputs } from "../output/write-outputs.ts";
import { type Plan, readPlan, standingPlan } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import { endGeneration, manifestOf, readSeals, type Seal } from "../seal/seals.ts";

/** The unfinished retry of a sealed run; undefined if there is none. */
export async function openRetry(
  storage: Storage,
  of: Pick<Plan, "runId">,
): Promise<Plan | undefined> {
  const { sealed, last } = await readSeals(storage, of);
  return sealed && (await readJson<Plan>(storage, planPathOf(last + 1)));
}

/** True for a retry without answers: nothing is lost with its dead letters. */
export async function answeredNothing(storage: Storage, retry: Plan): Promise<boolean> {
  const committed = await committedTasks(storage, retry);
  for await (const { rows } of readCommits(storage, retry, committed)) {
    if (rows.answered > 0) return false;
  }
  const run = { storage, plan: retry };
  for (const [task, attempts] of await journaledAttempts(run)) {
    for await (const { line } of journaledLines(run, task, attempts)) {
      if (line.outcome === "answered" || line.outcome === "partly-answered") return false;
    }
  }
  return true;
}

export interface AbandonedRetry {
  generation: number;
  /** Its answers, which are in none of the results. */
  dropped: PaidAnswers;
}

/**
 * Drops the unfinished retry of a sealed run: the results stay as they were before it.
 *
 * @returns undefined if no retry is unfinished.
 * @throws SluiceError `NOT_A_RUN`, and `COORDINATOR_LIVES` while a process works on it.
 */
export async function abandonRetry(
  location: RunLocation,
  dependencies: RunDependencies,
): Promise<AbandonedRetry | undefined> {
  const { clock, random, processes, openStorage } = dependencies;
  const storage = runStorage(openStorage(location.directory));
  const { job } = await readPlan(storage);
  const id = sortableId(clock, random);
  const coordinator = await Coordinator.lead({ storage, clock, processes, id, job });
  try {
    const retry = await openRetry(storage, await readPlan(storage));
    if (!retry) return undefined;
    const outside = openStorage(location.outside);
    const seal = await abandon({ storage, outside, openStorage, plan: retry, worker: id });
    return seal.end === "abandoned"
      ? { generation: retry.generation, dropped: seal.spent ?? noPaidAnswers }
      : undefined;
  } finally {
    await coordinator.end();
  }
}

type AbandonContext = Pick<RunContext, "storage" | "outside" | "openStorage" | "plan" | "worker">;

/** Ends a retry without a seal; for the process that leads the run. */
export async function abandon(context: AbandonContext): Promise<Seal> {
  const { storage, plan, worker: by } = context;
  const { sealed } = await readSeals(storage, plan);
  if (!sealed) {
    // If a run is replaced meanwhile, its seals go with it.
    await assertStands(storage);
    throw new SluiceError("RUN_OPEN", "only a sealed run has a retry to drop");
  }
  const base = await manifestOf(storage, sealed);
  const { runId, generation } = plan;
  const seal = await endGeneration(storage, {
    runId,
    generation,
    end: "abandoned",
    base: base.generation,
    by,
    spent: await answersOf(context),
  });
  const run = await standingPlan(storage, base.standing);
  if (seal.end === "abandoned" && run.outputs) {
    // Files by input or by row are written before a seal: the retry may have begun with them.
    const { tasks, columns = [] } = base;
    const sealedPlan = { ...plan, generation: base.generation };
    const source = { tasks, columns, assertLeads: async () => {} };
    await writeOutputs({ ...context, plan: sealedPlan } as RunContext, run, source);
  }
  return seal;
}

/** The answers of a generation so far. */
async function answersOf({ storage, plan }: AbandonContext): Promise<PaidAnswers> {
  let sum = noPaidAnswers;
  const committed = await committedTasks(storage, plan);
  for await (const { requests, usage } of readCommits(storage, plan, committed)) {
    const answers = requests.answered - (requests.reused ?? 0);
    sum = addPaidAnswers(sum, { answers, ...usage });
  }
  const run = { storage, plan };
  for (const [task, attempts] of await journaledAttempts(run)) {
    if (committed.has(task)) continue;
    sum = addPaidAnswers(sum, await journaledAnswers(run, task, attempts));
  }
  return sum;
}
