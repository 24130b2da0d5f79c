import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";
import { committedTasks, readCommits } from "../attempt/commits.ts";
import { isSettled, rowsOfLine } from "../attempt/journal-line.ts";
import { addPaidTokens } from "../attempt/tally.ts";
import { type JournaledRun, journaledAttempts, journaledLines } from "../bill/journaled.ts";
import { leadTimes } from "../coordinate/coordinator.ts";
import type { Pace, RowCost } from "./estimate.ts";

/** The cost so far of an unfinished run. */
export interface StandingSample {
  rowsDone: number;
  usage: Usage;
  /** Some of its rows: none if its journals are gone. */
  costs: RowCost[];
  seconds: number;
  /** Undefined if this says nothing. */
  pace: Pace | undefined;
}

/** Tasks to take rows from, and rows of each. */
const maxSampledTasks = 20;
const maxRowsPerTask = 100;

/** Reads the cost of a run so far: each row's cost from its journals, the sums from all. */
export async function standingSample(run: JournaledRun): Promise<StandingSample> {
  const attempts = await journaledAttempts(run);
  const committed = await committedTasks(run.storage, run.plan);
  const step = Math.max(1, attempts.size / maxSampledTasks);
  const costs: RowCost[] = [];
  const seconds = (await leadTimes(run.storage)).reduce((sum, time) => sum + time.seconds, 0);
  const found = { rowsDone: 0, usage: noUsage, costs, seconds };
  for await (const { rows, usage } of readCommits(run.storage, run.plan, committed)) {
    found.rowsDone += rows.total;
    found.usage = addUsage(found.usage, usage);
  }
  let [at, next] = [0, 0];
  for (const [task, ids] of [...attempts].sort(([a], [b]) => a - b)) {
    const isSampled = at++ >= next;
    if (isSampled) next += step;
    if (committed.has(task) && !isSampled) continue;
    const rows = await rowCosts(run, task, ids);
    if (isSampled) found.costs.push(...rows.slice(0, maxRowsPerTask));
    if (committed.has(task)) continue;
    found.rowsDone += rows.length;
    found.usage = rows.reduce((sum, row) => addUsage(sum, row.usage), found.usage);
  }
  return { ...found, pace: paceSoFar(found) };
}

/** Rows with an outcome, each with its whole cost. */
async function rowCosts(
  run: JournaledRun,
  task: number,
  attempts: readonly string[],
): Promise<RowCost[]> {
  const costs = new Map<number, RowCost>();
  const done = new Set<number>();
  for await (const { line } of journaledLines(run, task, attempts)) {
    const cost = costs.get(line.index) ?? { task, usage: { ...noUsage }, seconds: 0 };
    if (isSettled(line) || line.outcome === "failed") {
      done.add(line.index);
      addPaidTokens(cost.usage, line.requests);
      for (const { seconds, reused } of line.requests) cost.seconds += reused ? 0 : seconds;
    } else if (line.outcome === "invalid") {
      cost.usage = addUsage(cost.usage, line.usage);
    }
    costs.set(line.index, cost);
    if (!isSettled(line)) continue;
    for (const other of rowsOfLine(line).slice(1)) {
      costs.set(other, { task, usage: { ...noUsage }, seconds: 0 });
      done.add(other);
    }
  }
  return [...costs].filter(([index]) => done.has(index)).map(([, cost]) => cost);
}

function paceSoFar({ costs, rowsDone, seconds }: Omit<StandingSample, "pace">): Pace | undefined {
  const busy = costs.reduce((sum, cost) => sum + cost.seconds, 0);
  if (seconds === 0 || busy === 0) return undefined;
  const together = ((busy / costs.length) * rowsDone) / seconds;
  return { startSeconds: 0, together: { estimated: together, low: together, high: together } };
}
