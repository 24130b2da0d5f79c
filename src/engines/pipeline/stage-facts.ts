import { limits } from "../../foundation/limits.ts";

interface StageBatches {
  rows?: "same" | "any" | undefined;
  batchRows?: number | undefined;
  batchSize?: number | undefined;
}

interface NamedStage {
  kind: string;
  name?: string | undefined;
  column?: string | undefined;
  export?: string | undefined;
  closure?: { name: string } | undefined;
}

/** Whether batches of a stage may become any number of rows. */
export function givesAnyRows({ rows }: StageBatches): boolean {
  return rows === "any";
}

/** Rows of a batch that may become any number of rows: they decide the results. */
export function wholeBatchRows({ batchRows, batchSize }: StageBatches): number {
  return batchRows ?? batchSize ?? limits.defaultStageRows;
}

/** Rows of a common request: full batches for each stage of whole batches. */
export function rowsTogether({ stages }: { stages: readonly StageBatches[] }): number {
  return leastCommonMultiple(stages.filter(givesAnyRows).map(wholeBatchRows));
}

/** A number of rows that batches of each size fill. */
export function leastCommonMultiple(sizes: readonly number[]): number {
  return sizes.reduce((a, b) => (a * b) / greatestCommon(a, b), 1);
}

const greatestCommon = (a: number, b: number): number => (b === 0 ? a : greatestCommon(b, a % b));

/** A stage's name for people: its number from 1, its kind and its name. */
export function stageLabel(
  { kind, name, column, export: exported, closure }: NamedStage,
  at: number,
): string {
  const called = name ?? column ?? exported ?? closure?.name ?? "";
  return called === "" ? `${at + 1} ${kind}` : `${at + 1} ${kind} ${called}`;
}
