import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest } from "../../foundation/inference.ts";
import type { JsonObject } from "../../foundation/json.ts";
import type { RequestKeeper } from "../kept-row.ts";
import { compileOnePrompt, type PromptSet, type PromptSetSpec } from "../prompt-set.ts";
import type { RowRequest } from "../row-request.ts";
import { type DatasetPromptOptions, datasetPrompt } from "./dataset-options.ts";

/** A dataset of a job, as far as its prompts follow from it. */
export interface PromptedDataset extends DatasetPromptOptions {
  /** No other dataset of the job has it. */
  name: string;
}

/**
 * The prompts of several datasets, one each; a row is asked that of its own. Requests have the name
 * of their dataset for `promptName`.
 */
export class DatasetPromptSet implements PromptSet {
  /** A row is asked one prompt, whatever its dataset. */
  readonly names = ["prompt"];
  readonly #byName: ReadonlyMap<string, PromptSet>;

  /**
   * @param common the schema and the generation of all of them.
   * @throws SluiceError `JOB_INVALID`, naming the key.
   */
  constructor(
    datasets: readonly PromptedDataset[],
    common: Pick<PromptSetSpec, "schema" | "generation">,
  ) {
    const compiled = datasets.map((dataset, at) => {
      const compile = () =>
        compileOnePrompt({
          name: dataset.name,
          key: `dataset.${at}`,
          options: datasetPrompt(dataset),
          ...common,
        });
      return [dataset.name, withPlainKeys(compile)] as const;
    });
    this.#byName = new Map(compiled);
  }

  requests(row: JsonObject, index: number, dataset?: string, raw?: string): RowRequest[] {
    return this.#ofDataset(dataset).requests(row, index, dataset, raw);
  }

  ready: PromptSet["ready"] = (requests, responses, at) =>
    this.#of(requests[at]).ready(requests, responses, at);

  accept: PromptSet["accept"] = (request, response) => this.#of(request).accept(request, response);

  reask: PromptSet["reask"] = (request, badText, problem) =>
    this.#of(request).reask(request, badText, problem);

  answer: PromptSet["answer"] = (requests, responses) =>
    this.#of(requests[0]).answer(requests, responses);

  partialAnswer: PromptSet["partialAnswer"] = (requests, responses) =>
    requests.length === 0 ? null : this.#of(requests[0]).partialAnswer(requests, responses);

  readonly keeper: RequestKeeper = {
    keep: (requests) => this.#of(requests[0]).keeper!.keep(requests),
    restore: (kept, index, row) =>
      this.#ofDataset(kept.requests[0]?.promptName).keeper!.restore(kept, index, row),
  };

  #of(request: InferenceRequest | undefined): PromptSet {
    return this.#ofDataset(request?.origin?.promptName);
  }

  #ofDataset(name: string | undefined): PromptSet {
    const set = this.#byName.get(name ?? "");
    if (set !== undefined) return set;
    throw new SluiceError("RUN_DAMAGED", `a row is of dataset ${name}, which the job has not`);
  }
}

/** What a type takes stands in the entry itself, not under `typeOptions`. */
function withPlainKeys(compile: () => PromptSet): PromptSet {
  try {
    return compile();
  } catch (error) {
    if (!(error instanceof SluiceError) || !error.place.field?.includes(".typeOptions."))
      throw error;
    const field = error.place.field.replace(".typeOptions.", ".");
    const message = error.message.replaceAll(".typeOptions.", ".");
    const moved = new SluiceError(error.code, "", { ...error.place, field, hint: error.hint });
    moved.message = message;
    throw moved;
  }
}
