import type { Storage } from "../../data/storage/storage.ts";
import { noUsage, type Usage } from "../../foundation/inference.ts";
import { ruleTimes } from "../coordinate/coordinator.ts";
import type { Generation } from "../directory/layout.ts";
import type { JobSpec } from "../job/schema.ts";
import type { RunContext } from "../run-context.ts";
import { readCommits } from "../seal/commits.ts";
import { readManifest } from "../seal/seals.ts";
import type { RunEvent } from "../status/events.ts";
import { BudgetWatch } from "./budget.ts";
import { journaledAnswers, journaledAttempts } from "./journaled.ts";

/** A run that may have a budget. */
export interface BudgetedRun {
  context: Pick<RunContext, "storage" | "plan" | "clock">;
  /** The job as it is carried out now. */
  job: JobSpec;
  /** Tasks with a commit. */
  committed: Iterable<number>;
}

/**
 * Reads what a run has spent so far, from its commits, its journals and the times of its
 * coordinators, and watches from now on. Undefined where the job sets no limit.
 */
export async function openBudget(
  { context, job, committed }: BudgetedRun,
  onEvent: (event: RunEvent) => void,
): Promise<BudgetWatch | undefined> {
  const { budget, prices } = job;
  if (!budget || Object.values(budget).every((limit) => limit === undefined)) return undefined;
  const { storage, plan, clock } = context;
  return new BudgetWatch({
    budget,
    prices,
    clock,
    earlier: await earlierCost(storage, plan),
    tasks: await spentByTask(context, committed),
    onEvent,
  });
}

/** What the generations before one cost, and the time that all coordinators have led. */
export interface EarlierCost {
  usage: Usage;
  seconds: number;
}

export async function earlierCost(storage: Storage, of: Generation): Promise<EarlierCost> {
  const times = await ruleTimes(storage);
  const seconds = times.reduce((sum, time) => sum + time.seconds, 0);
  const sealed = of.generation === 1 ? undefined : await readManifest(storage);
  return { usage: sealed?.bill ?? sealed?.usage ?? noUsage, seconds };
}

async function spentByTask(
  context: BudgetedRun["context"],
  committed: Iterable<number>,
): Promise<Map<number, Usage>> {
  const spent = new Map<number, Usage>();
  for await (const { task, usage } of readCommits(context.storage, context.plan, committed)) {
    spent.set(task, usage);
  }
  for (const [task, attempts] of await journaledAttempts(context)) {
    if (!spent.has(task)) spent.set(task, await journaledAnswers(context, task, attempts));
  }
  return spent;
}
