import type { TextMessage } from "../../foundation/inference.ts";
import type { RowFields } from "./row-fields.ts";
import type { TypeOptions } from "./type-options.ts";

/** Makes a text of a row, up to where the answer begins. */
export interface TextReading {
  kind: "text";
  text(fields: RowFields): string;
}

export interface ConversationReading {
  kind: "conversation";
  /** All recorded messages, including the expected answers. */
  messages(fields: RowFields): TextMessage[];
  /**
   * The text of a conversation up to where the answer begins. Present for types with their own
   * form; others use the model's chat template.
   *
   * @param eosToken ends the model's turns if the form has no end mark.
   */
  format?(messages: readonly TextMessage[], eosToken: string): string;
}

/** How rows of a type are read; pure functions of a row. */
export type Reading = TextReading | ConversationReading;

/** A dataset type of Axolotl. */
export interface PromptType {
  /** Its names; all mean the same, and the first one is shown. */
  readonly names: readonly [string, ...string[]];
  /** The keys of `typeOptions` that it accepts. */
  readonly options: readonly (keyof TypeOptions)[];
  /** @throws SluiceError `JOB_INVALID` for options that contradict each other. */
  read(options: TypeOptions, key: string): Reading;
}

/** A type without options that makes a text. */
export function textType(
  names: PromptType["names"],
  text: (fields: RowFields) => string,
): PromptType {
  return { names, options: [], read: () => ({ kind: "text", text }) };
}
