import type { SluiceError } from "../../foundation/errors.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { fromWire, toWire } from "../../foundation/typed-json.ts";
import type { BatchReply, HostedEngine } from "../host/protocol.ts";
import { loadStageCode } from "./load-code.ts";
import {
  type BatchFunction,
  batchFunction,
  type LabelledStage,
  type RowFunction,
  rowFunction,
  type Until,
} from "./stage-code.ts";

/** Stages in one process: one stage of batches, or neighbouring ones of rows. */
export interface HostedStagesOptions {
  stages: LabelledStage[];
}

/**
 * Loads the code of stages in this process, which is an engine host.
 *
 * @throws SluiceError `STAGE_UNUSABLE`, with the file and its fault.
 */
export async function openHostedStages(options: Json): Promise<HostedEngine> {
  const { stages } = options as unknown as HostedStagesOptions;
  return new HostedStages(await functionOf(stages));
}

async function functionOf(stages: readonly LabelledStage[]): Promise<BatchFunction> {
  const [first] = stages;
  if (first?.stage.kind === "mapBatches") {
    return batchFunction(first, await loadStageCode(first.stage));
  }
  const functions: RowFunction[] = [];
  for (const each of stages) functions.push(rowFunction(each, await loadStageCode(each.stage)));
  return eachThrough(functions);
}

/** Passes each row of a batch through functions of rows; a failing row fails alone. */
export function eachThrough(functions: readonly RowFunction[]): BatchFunction {
  return (rows) =>
    Promise.all(rows.map((row) => through(functions, row).catch((error: Error) => error)));
}

/** A row's result after several functions. */
export async function through(
  functions: readonly RowFunction[],
  row: JsonObject,
  until?: Until,
): Promise<readonly JsonObject[]> {
  let rows: readonly JsonObject[] = [row];
  for (const each of functions) {
    const [only, ...others] = rows;
    if (only === undefined) return rows;
    rows =
      others.length === 0
        ? await each(only, until)
        : (await Promise.all(rows.map((row) => each(row, until)))).flat();
  }
  return rows;
}

class HostedStages implements HostedEngine {
  readonly name = "pipeline";
  readonly capacity = 1;
  readonly choices = {};
  readonly #function: BatchFunction;
  /** The batch in work; one at a time, also if the last one was given up. */
  #running: Promise<unknown> = Promise.resolve();

  constructor(batch: BatchFunction) {
    this.#function = batch;
  }

  runBatch(items: readonly Json[]): Promise<readonly BatchReply[]> {
    const replies = this.#running.then(() => this.#compute(items as JsonObject[]));
    this.#running = replies.catch(() => {});
    return replies;
  }

  async close(): Promise<void> {
    await this.#running;
  }

  async #compute(rows: readonly JsonObject[]): Promise<readonly BatchReply[]> {
    const results = await this.#function(rows.map(fromWire) as JsonObject[]);
    return results.map((result) =>
      result instanceof Error
        ? { error: (result as SluiceError).toJSON() }
        : { value: toWire(result as JsonObject[]) },
    );
  }
}
