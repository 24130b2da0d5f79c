import { nearest } from "../../foundation/suggest.ts";
import { jobInvalid } from "../answer-form.ts";
import { alpacaTypes, alpacaWithSystemTypes, reflectionTypes } from "./alpaca.ts";
import {
  chatTemplateType,
  inputOutputType,
  jokesType,
  llama2ChatType,
  messagesType,
  pygmalionType,
  shareGptTypes,
} from "./conversations.ts";
import { creativeTypes } from "./creative.ts";
import type { PromptType, Reading } from "./prompt-type.ts";
import type { TypeOptions } from "./type-options.ts";

/** A field as it is, for the model to continue. */
const completionTypes: readonly PromptType[] = [
  {
    names: ["completion", "completion.load"],
    options: ["field"],
    read: ({ field = "text" }) => ({ kind: "text", text: (fields) => fields.text(field) }),
  },
];

/** All prompt types with a name. */
export const promptTypes: readonly PromptType[] = [
  ...alpacaTypes,
  ...alpacaWithSystemTypes,
  ...reflectionTypes,
  ...creativeTypes,
  ...completionTypes,
  inputOutputType,
  ...shareGptTypes,
  jokesType,
  llama2ChatType,
  messagesType,
  chatTemplateType,
  pygmalionType,
];

const byName = new Map(promptTypes.flatMap((type) => type.names.map((name) => [name, type])));

/**
 * How rows of a named type are read.
 *
 * @param key of the prompt in the job file, for messages: `prompts.answer`.
 * @throws SluiceError `JOB_INVALID` for an unknown name, with the nearest known one, and for an
 *   option that the type does not accept.
 */
export function readNamedType(name: string, options: TypeOptions, key: string): Reading {
  const type = byName.get(name);
  if (type === undefined) {
    const near = nearest(name, byName.keys());
    const hint = near === undefined ? "docs/job-file.md lists them" : `did you mean ${near}?`;
    throw jobInvalid(`${key}.type`, `there is no prompt type ${name}; ${hint}`);
  }
  for (const [option, value] of Object.entries(options)) {
    if (value === undefined || type.options.includes(option as keyof TypeOptions)) continue;
    const taken = type.options.length === 0 ? "no options" : type.options.join(", ");
    throw jobInvalid(`${key}.typeOptions.${option}`, `type ${name} takes ${taken}`);
  }
  return type.read(options, `${key}.typeOptions`);
}
