import { SluiceError } from "../../foundation/errors.ts";
import {
  compileOnePrompt,
  type PromptSet,
  type PromptSetSpec,
  promptsByDataset,
} from "../prompt-set.ts";
import { type DatasetPromptOptions, datasetPrompt } from "./dataset-options.ts";

/** A dataset of a job, as far as prompts need it. */
export interface PromptedDataset extends DatasetPromptOptions {
  /** Unique among the datasets of the job. */
  name: string;
}

/**
 * The prompts of several datasets, one for each. A row gets the prompt of its dataset. The
 * `promptName` of a request is the name of the dataset.
 *
 * @param common schema and sampling parameters of all of them.
 * @throws SluiceError `JOB_INVALID`, which names the key.
 */
export function datasetPromptSet(
  datasets: readonly PromptedDataset[],
  common: Pick<PromptSetSpec, "schema" | "generation">,
): PromptSet {
  const prompts = datasets.map((dataset, at) =>
    withPlainKeys(() =>
      compileOnePrompt({
        name: dataset.name,
        key: `dataset.${at}`,
        options: datasetPrompt(dataset),
        ...common,
      }),
    ),
  );
  return promptsByDataset(prompts);
}

/**
 * Options of a type are keys of the entry itself, not of `typeOptions`: error messages must say so.
 */
function withPlainKeys<Compiled>(compile: () => Compiled): Compiled {
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
