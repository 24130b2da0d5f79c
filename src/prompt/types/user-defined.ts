import type { TextReading } from "./prompt-type.ts";
import type { UserDefinedType } from "./type-options.ts";
import { instructionText } from "./wording.ts";

/**
 * A type that the job describes itself, by Axolotl's keys.
 *
 * @param key of the job file, for messages: `prompts.answer.type`.
 * @throws SluiceError `JOB_INVALID` for a format with an unknown name.
 */
export function readUserDefined(type: UserDefinedType, key: string): TextReading {
  const wording = {
    system: type.system_format,
    turn: type.format,
    turnWithoutInput: type.no_input_format,
  };
  const text = instructionText(
    wording,
    (fields) => ({
      system: fields.has(type.field_system) ? fields.text(type.field_system) : type.system_prompt,
      instruction: fields.text(type.field_instruction),
      input: fields.optionalText(type.field_input),
    }),
    key,
  );
  return { kind: "text", text };
}
