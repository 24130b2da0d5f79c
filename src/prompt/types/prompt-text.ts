import type { WrittenRow } from "../../foundation/exact-json.ts";

/**
 * A copy of the row with these fields emptied if it has them, as Axolotl does with answers that a
 * dataset already holds.
 */
export function truncateFeatures(row: WrittenRow, features: readonly string[]): WrittenRow {
  const present = features.filter((feature) => Object.hasOwn(row, feature));
  if (present.length === 0) return row;
  return { ...row, ...Object.fromEntries(present.map((feature) => [feature, ""])) };
}

export interface PromptCleaning {
  stripWhitespace?: boolean | undefined;
  eosToken?: string | undefined;
}

/**
 * The prompt without end-of-sequence tokens at its end, because a model writes nothing after them.
 * If requested, also without white space at both ends.
 *
 * @example
 * cleanedPrompt("Once </s>\n", { stripWhitespace: true, eosToken: "</s>" }); // "Once"
 */
export function cleanedPrompt(prompt: string, cleaning: PromptCleaning): string {
  const { stripWhitespace = false, eosToken = "" } = cleaning;
  const stripped = stripWhitespace ? prompt.trim() : prompt;
  const trimmed = trimEndOfSequence(stripped, eosToken);
  return stripWhitespace ? trimmed.trim() : trimmed;
}

function trimEndOfSequence(prompt: string, eosToken: string): string {
  let end = prompt.length;
  while (eosToken !== "" && prompt.endsWith(eosToken, end)) end -= eosToken.length;
  return prompt.slice(0, end);
}
