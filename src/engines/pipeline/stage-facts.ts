import { limits } from "../../foundation/limits.ts";
import type { PipelineModelOptions, StageOptions } from "./options.ts";

/** Whether batches of a stage may become any number of rows. */
export function givesAnyRows({ rows }: StageOptions): boolean {
  return rows === "any";
}

/** Rows of a batch that may become any number of rows: they decide what comes out. */
export function wholeBatchRows({ batchRows, batchSize }: StageOptions): number {
  return batchRows ?? batchSize ?? limits.defaultStageRows;
}

/** Rows that are asked as one: so many that each stage of whole batches gets full ones. */
export function rowsTogether({ stages }: Pick<PipelineModelOptions, "stages">): number {
  return Math.max(1, ...stages.filter(givesAnyRows).map(wholeBatchRows));
}

/** What a person calls a stage: its number from 1, its kind and its name. */
export function stageLabel(
  { kind, name, column, export: exported, closure }: StageOptions,
  at: number,
): string {
  const called = name ?? column ?? exported ?? closure?.name ?? "";
  return called === "" ? `${at + 1} ${kind}` : `${at + 1} ${kind} ${called}`;
}
