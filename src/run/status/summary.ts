import type { ErrorCount, ErrorCounts } from "../attempt/commit.ts";
import type { JobSpec } from "../job/schema.ts";
import type { Manifest } from "../seal/manifest.ts";
import type { RunSummary } from "./events.ts";

/** What the summary of a sealed run takes from the call. */
export interface CallFacts {
  runTimeSec: number;
  /** Rows that earlier calls had answered. */
  resumedRows: number;
  generatedTokens: number;
  output: string;
  manifestPath: string;
}

/** The summary of a sealed run: counts are of the whole run, seconds and rates of this call. */
export function sealedSummary(
  manifest: Manifest,
  { model }: Pick<JobSpec, "model">,
  facts: CallFacts,
  isSuccess: boolean,
): RunSummary {
  const { rows, requests, usage, errors, bill, prepared } = manifest;
  return {
    status: isSuccess ? "SUCCESS" : "FAILED",
    run_id: manifest.runId,
    request_count: requests.planned,
    response_count: requests.answered,
    ...(requests.reused !== undefined && { reused_count: requests.reused }),
    ...finishReasons(rows.answered, manifest.cut),
    ...(prepared && { prepared }),
    run_time_sec: rounded(facts.runTimeSec),
    prompt_tokens: usage.promptTokens,
    total_tokens_generated: usage.completionTokens,
    tokens_per_sec: rate(facts.generatedTokens, facts.runTimeSec),
    ...(typeof bill?.usd === "number" && { usd: bill.usd }),
    seed: manifest.seed,
    rows: {
      total: rows.total,
      answered: rows.answered,
      failed: rows.failed,
      resumed: facts.resumedRows,
      ...(model.engine === "pipeline" && {
        filtered: rows.filtered,
        results: rows.results,
      }),
    },
    ...summaryErrors(errors),
    output: facts.output,
    manifest: facts.manifestPath,
    sealed: true,
  };
}

/** Answered rows by how their answers ended, in the form of a summary. */
export function finishReasons(
  answered: number,
  cut: number | undefined,
): Pick<RunSummary, "finish_reasons"> {
  if (cut === undefined) return {};
  return { finish_reasons: { stop: Math.max(0, answered - cut), length: cut } };
}

/** The notice about ids that several rows share; undefined if there are none. */
export function duplicatesNotice({ duplicateIds }: Pick<Manifest, "duplicateIds">) {
  if (!duplicateIds || duplicateIds.count === 0) return undefined;
  const { count, examples } = duplicateIds;
  const repeating = count === 1 ? "1 row repeats" : `${count} rows repeat`;
  const [first] = examples;
  const where = first ? `: row ${first.rows[1]} that of row ${first.rows[0]}, from 0` : "";
  return `${repeating} the id of an earlier one${where}`;
}

/** Failures in the form of a summary. */
export function summaryErrors(
  errors: ErrorCounts,
): Pick<RunSummary, "errors" | "error_messages" | "error_hints"> {
  const entries = Object.entries(errors) as [string, ErrorCount][];
  const hints = entries.flatMap(([code, { hint }]) => (hint === undefined ? [] : [[code, hint]]));
  return {
    errors: Object.fromEntries(entries.map(([code, { count }]) => [code, count])),
    error_messages: Object.fromEntries(entries.map(([code, { message }]) => [code, message])),
    ...(hints.length > 0 && { error_hints: Object.fromEntries(hints) }),
  };
}

export function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}

/** A number per second, to three digits. */
export function rate(count: number, seconds: number): number {
  return seconds > 0 ? rounded(count / seconds) : 0;
}
