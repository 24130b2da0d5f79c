import { exitCodes } from "../../foundation/error-table.ts";
import type { SluiceError } from "../../foundation/errors.ts";
import { addUsage } from "../../foundation/inference.ts";
import { type AttemptCounts, addCounts, addErrors, noCounts } from "../attempt/commit.ts";
import { committedTasks, readCommits } from "../attempt/commits.ts";
import { pricesOf, usdOf } from "../bill/costs.ts";
import { manifestPathOf } from "../directory/layout.ts";
import type { RunLocation } from "../directory/locate.ts";
import { isCancellation } from "../dispatch/backend.ts";
import type { DispatchEnd } from "../dispatch/dispatch.ts";
import type { JobSpec } from "../job/schema.ts";
import type { Plan } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import type { Manifest } from "../seal/manifest.ts";
import { readManifest } from "../seal/seals.ts";
import type { RunSummary } from "./events.ts";
import { openCounts, requestsOfStopped } from "./stopped-counts.ts";
import {
  type CallFacts,
  finishReasons,
  rate,
  rounded,
  sealedSummary,
  summaryErrors,
} from "./summary.ts";

/** How a call of `sluice run` ended. */
export interface RunResult {
  summary: RunSummary;
  exitCode: number;
  error?: SluiceError;
  /** True if the run was sealed before this call, which did nothing. */
  wasSealed: boolean;
}

/** The summary of a run that stopped before its seal; counts its finished rows. */
export async function stoppedResult(
  context: RunContext,
  end: DispatchEnd,
  facts: { runTimeSec: number; resumedRows: number; output: string },
): Promise<RunResult> {
  const { plan, storage } = context;
  const error = end.error!;
  const committed = await committedTasks(storage, plan);
  const counts = await committedCounts(context, committed);
  const open = await openCounts(context, committed, end.partial);
  const usage = addUsage(counts.usage, open.usage);
  const usd = usdOf(usage, pricesOf(plan.job));
  const requests = await requestsOfStopped(context, counts, open);
  const answered = counts.rows.answered + open.answered;
  const isPipeline = plan.job.model.engine === "pipeline";
  const summary: RunSummary = {
    status: isCancellation(error) ? "CANCELED" : "FAILED",
    run_id: plan.runId,
    request_count: requests.planned,
    response_count: requests.answered,
    ...finishReasons(answered, open.cut === undefined ? undefined : (counts.cut ?? 0) + open.cut),
    run_time_sec: rounded(facts.runTimeSec),
    prompt_tokens: usage.promptTokens,
    total_tokens_generated: usage.completionTokens,
    tokens_per_sec: rate(end.generatedTokens, facts.runTimeSec),
    ...(usd !== null && { usd }),
    seed: plan.seed,
    rows: {
      total: plan.rows,
      answered,
      failed: counts.rows.failed + end.partial.failed,
      resumed: facts.resumedRows,
      ...(isPipeline &&
        open.filtered !== undefined && { filtered: counts.rows.filtered + open.filtered }),
    },
    ...summaryErrors(addErrors(counts.errors, end.partial.errors)),
    stopped_by: { code: error.code, message: error.message },
    output: facts.output,
    manifest: null,
    sealed: false,
  };
  return { summary, exitCode: error.exitCode, error, wasSealed: false };
}

async function committedCounts(
  context: RunContext,
  committed: Iterable<number>,
): Promise<AttemptCounts> {
  let counts = structuredClone(noCounts);
  for await (const commit of readCommits(context.storage, context.plan, committed)) {
    counts = addCounts(counts, commit);
  }
  return counts;
}

/** Failed rows in commits, for a limit of failed rows: 0 without one, as it reads every commit. */
export async function failedBefore(
  context: RunContext,
  job: JobSpec,
  committed: ReadonlySet<number>,
): Promise<number> {
  if (job.maxFailedRows === undefined) return 0;
  const { failed } = (await committedCounts(context, committed)).rows;
  if (context.plan.where !== "appended") return failed;
  // The whole run is judged at the end, with the rows before.
  return failed + ((await readManifest(context.storage))?.rows.failed ?? 0);
}

/** Failed rows that a run may have; a share is of all planned rows. */
export function failedRowsAllowed(job: JobSpec, plan: Pick<Plan, "rows">): number | undefined {
  const { maxFailedRows } = job;
  if (maxFailedRows === undefined || maxFailedRows >= 1) return maxFailedRows;
  return Math.floor(maxFailedRows * plan.rows);
}

/** True if no more rows failed than the job allows; by default, none may. */
export function areFailuresAllowed(
  job: JobSpec,
  plan: Pick<Plan, "rows">,
  failed: number,
): boolean {
  return failed <= (failedRowsAllowed(job, plan) ?? 0);
}

export function sealedResult(
  manifest: Manifest,
  job: JobSpec,
  facts: CallFacts,
  wasSealed: boolean,
): RunResult {
  const { total, failed } = manifest.rows;
  const isSuccess = areFailuresAllowed(job, { rows: total }, failed);
  const exitCode = isSuccess ? exitCodes.ok : exitCodes.failedRows;
  return { summary: sealedSummary(manifest, job, facts, isSuccess), exitCode, wasSealed };
}

/** Absolute paths of the output and of the manifest. */
export function placesOf(location: RunLocation, generation: number) {
  const { directory, outside, mergedFile, pattern } = location;
  const file = mergedFile ?? pattern;
  return {
    output: file === null ? directory : `${outside}/${file}`,
    manifestPath: `${directory}/${manifestPathOf(generation)}`,
  };
}
