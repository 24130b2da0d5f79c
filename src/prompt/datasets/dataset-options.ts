import { z } from "zod";
import { promptFields, typeFields } from "../prompt-options.ts";
import { typeOptions, userDefinedType } from "../types/type-options.ts";

const { api, onTooLong, truncateFeatures, stripWhitespace, eosToken } = promptFields;

/** Keys for prompts in an entry of `dataset`: a type and the options of the type. */
export const datasetPromptFields = {
  type: z
    .union([z.string(), userDefinedType])
    .describe("The prompt type of its rows, by Axolotl's name or as your own map"),
  ...typeOptions.shape,
  turns: typeFields.turns,
  api,
  onTooLong,
  truncateFeatures,
  stripWhitespace,
  eosToken,
};

/** The options for prompts in an entry of `dataset`. */
export type DatasetPromptOptions = z.output<z.ZodObject<typeof datasetPromptFields>>;
