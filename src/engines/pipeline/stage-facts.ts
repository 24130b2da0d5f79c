import { limits } from "../../foundation/limits.ts";
import type { PipelineModelOptions, StageOptions } from "./options.ts";

/** Whether batches of a stage may become any number of rows. */
export function givesAnyRows({ rows }: StageOptions): boolean {
  return rows === "any";
}

/** Rows of a batch that may become any number of rows: they decide the results. */
export function wholeBatchRows({ batchRows, batchSize }: StageOptions): number {
  return batchRows ?? batchSize ?? limits.defaultStageRows;
}

/** Rows of a common request: enough for full batches in each stage of whole batches. */
export function rowsTogether({ stages }: Pick<PipelineModelOptions, "stages">): number {
  return Math.max(1, ...stages.filter(givesAnyRows).map(wholeBatchRows));
}

/** A stage's name for people: its number from 1, its kind and its name. */
export function stageLabel(
  { kind, name, column, export: exported, closure }: StageOptions,
  at: number,
): string {
  const called = name ?? column ?? exported ?? closure?.name ?? "";
  return called === "" ? `${at + 1} ${kind}` : `${at + 1} ${kind} ${called}`;
}
