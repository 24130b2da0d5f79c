import { SluiceError } from "../../foundation/errors.ts";
import {
  compileOnePrompt,
  type PromptSet,
  type PromptSetSpec,
  promptsByDataset,
} from "../prompt-set.ts";
import { type DatasetPromptOptions, datasetPrompt } from "./dataset-options.ts";

/** A dataset of a job, as far as its prompts follow from it. */
export interface PromptedDataset extends DatasetPromptOptions {
  /** No other dataset of the job has it. */
  name: string;
}

/**
 * The prompts of several datasets, one each; a row has that of its own. Requests have the name of
 * their dataset for `promptName`.
 *
 * @param common the schema and the generation of all of them.
 * @throws SluiceError `JOB_INVALID`, naming the key.
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

/** What a type takes stands in the entry itself, not under `typeOptions`. */
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
