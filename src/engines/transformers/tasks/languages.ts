import { SluiceError } from "../../../foundation/errors.ts";
import type { InferenceRequest } from "../../../foundation/inference.ts";
import type { TransformersModelOptions } from "../options.ts";
import type { Encoding, Tokenizer } from "../transformers-js.ts";
import { columnInvalid, columnOf } from "./asked-text.ts";

export interface LanguagePair {
  source: string;
  target: string;
}

type LanguageOptions = Pick<
  TransformersModelOptions,
  "srcLang" | "tgtLang" | "srcLangColumn" | "tgtLangColumn"
>;

/**
 * Refuses unknown and missing languages of a job, and languages for a model without a choice of
 * them.
 *
 * @throws SluiceError `TASK_UNUSABLE`.
 */
export function assertLanguages(options: LanguageOptions, tokenizer: Tokenizer): void {
  const known = tokenizer.language_codes;
  for (const side of ["srcLang", "tgtLang"] as const) {
    const [fixed, column] = [options[side], options[`${side}Column`]];
    if (known === undefined) {
      if (fixed === undefined && column === undefined) continue;
      throw unusable(`model.${side}: this model has one pair of languages`, "leave it out");
    }
    if (fixed === undefined && column === undefined) {
      const hint = `set model.${side}, or model.${side}Column to a column that names it`;
      throw unusable(`this model translates between several languages and has no ${side}`, hint);
    }
    if (fixed !== undefined && !known.includes(fixed)) {
      throw unusable(`model.${side}: ${fixed} is none of its languages`, knownLanguages(known));
    }
  }
}

/**
 * The languages of one row: its own columns first.
 *
 * @throws SluiceError `COLUMN_INVALID`, `LANGUAGE_UNKNOWN`.
 */
export function languagesOf(
  request: InferenceRequest,
  options: LanguageOptions,
  known: readonly string[],
): LanguagePair {
  return {
    source: languageOf("srcLang", request, options, known),
    target: languageOf("tgtLang", request, options, known),
  };
}

function languageOf(
  side: "srcLang" | "tgtLang",
  request: InferenceRequest,
  options: LanguageOptions,
  known: readonly string[],
): string {
  const column = options[`${side}Column`];
  const own = column === undefined ? undefined : columnOf(request, column);
  const language = own ?? options[side];
  if (typeof language !== "string") {
    throw columnInvalid(`${column} names no language`, column ?? side, `${side}Column`);
  }
  if (known.includes(language)) return language;
  throw new SluiceError("LANGUAGE_UNKNOWN", language, {
    hint: knownLanguages(known),
    ...(column !== undefined && { field: column }),
  });
}

/** Tokens of a text in a language, and the first token of an answer in the other one. */
export function encodeForTranslation(
  text: string,
  { source, target }: LanguagePair,
  tokenizer: Tokenizer,
): { encoding: Encoding; forcedStart: number } {
  const languages: Parameters<NonNullable<Tokenizer["_build_translation_inputs"]>>[2] = {
    src_lang: source,
    tgt_lang: target,
  };
  const encoding = tokenizer._build_translation_inputs!(text, { return_tensor: false }, languages);
  return { encoding, forcedStart: languages.forced_bos_token_id! };
}

const shownLanguages = 40;

function knownLanguages(known: readonly string[]): string {
  const more = known.length > shownLanguages ? `, and ${known.length - shownLanguages} more` : "";
  return `take one of ${known.slice(0, shownLanguages).join(", ")}${more}`;
}

function unusable(detail: string, hint: string): SluiceError {
  return new SluiceError("TASK_UNUSABLE", detail, { hint });
}
