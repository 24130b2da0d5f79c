import { SluiceError, wordedError } from "../../foundation/errors.ts";
import type { PromptOptions } from "../prompt-options.ts";
import {
  compileOnePrompt,
  type PromptSet,
  type PromptSetSpec,
  promptsByDataset,
} from "../prompt-set.ts";
import type { TypeOptions } from "../types/type-options.ts";
import type { DatasetPromptOptions } from "./dataset-options.ts";

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

/** Options of a type are keys of the entry itself, not of `typeOptions`: messages must say so. */
function withPlainKeys<Compiled>(compile: () => Compiled): Compiled {
  try {
    return compile();
  } catch (error) {
    if (!(error instanceof SluiceError) || !error.place.field?.includes(".typeOptions."))
      throw error;
    const field = error.place.field.replace(".typeOptions.", ".");
    const message = error.message.replaceAll(".typeOptions.", ".");
    throw wordedError(error.code, message, { ...error.place, field, hint: error.hint });
  }
}

/** Keys of a dataset's entry that its type takes. */
const typeOptionNames: Readonly<Record<keyof TypeOptions, true>> = {
  field: true,
  field_messages: true,
  field_system: true,
  message_property_mappings: true,
  message_field_role: true,
  message_field_content: true,
  roles: true,
  drop_system_message: true,
  field_human: true,
  field_model: true,
  conversation: true,
};

/** The prompt of a dataset's rows as one of `prompt` would be written. */
function datasetPrompt(dataset: DatasetPromptOptions): PromptOptions {
  const { type, turns, onTooLong: policy, ...others } = dataset;
  const options = Object.entries(others).filter(([name]) => Object.hasOwn(typeOptionNames, name));
  return {
    type,
    typeOptions: Object.fromEntries(options),
    turns,
    api: others.api,
    onTooLong: policy,
    truncateFeatures: others.truncateFeatures,
    stripWhitespace: others.stripWhitespace,
    eosToken: others.eosToken,
  };
}
