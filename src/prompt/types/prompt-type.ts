import type { TextMessage } from "../../foundation/inference.ts";
import type { RowFields } from "./row-fields.ts";
import type { TypeOptions } from "./type-options.ts";

/** Makes one text of a row, up to where the answer begins. */
export interface TextReading {
  kind: "text";
  text(fields: RowFields): string;
}

/** Reads a conversation from a row. */
export interface ConversationReading {
  kind: "conversation";
  /** All recorded messages, also the answers that are expected. */
  messages(fields: RowFields): TextMessage[];
  /**
   * The text of a conversation up to where the answer begins, for types with a form of their own.
   * Those without leave it to the model's chat template.
   *
   * @param eosToken stands after the model's turns where the form has no end mark of its own.
   */
  format?(messages: readonly TextMessage[], eosToken: string): string;
}

/** How rows of one type are read: pure functions of a row. */
export type Reading = TextReading | ConversationReading;

/** A kind of dataset that Axolotl knows by name. */
export interface PromptType {
  /** Its names, the first one in use; further ones mean the same. */
  readonly names: readonly [string, ...string[]];
  /** The keys of `typeOptions` that it takes. */
  readonly options: readonly (keyof TypeOptions)[];
  /** @throws SluiceError `JOB_INVALID` for options that do not go together. */
  read(options: TypeOptions, key: string): Reading;
}

/** A type without options that makes a text. */
export function textType(
  names: PromptType["names"],
  text: (fields: RowFields) => string,
): PromptType {
  return { names, options: [], read: () => ({ kind: "text", text }) };
}
