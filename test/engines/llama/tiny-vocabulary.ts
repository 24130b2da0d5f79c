import { Vocabulary } from "../../../src/engines/llama/vocabulary.ts";

/** Control tokens: the end of an answer, and one that rows like to imitate. */
export const endToken = 0;
export const startToken = 1;

const words = [
  "temperature",
  " temperature",
  "=",
  " =",
  "none",
  ", ",
  ",",
  " duration",
  "duration",
];
const more = [
  " min",
  "utes",
  " minutes",
  "minutes",
  "5",
  "10",
  " to",
  " degrees",
  " F",
  "\n",
  "\n\n",
];

/** A byte-level vocabulary: every byte, a few words and others, and control tokens. */
export function tinyVocabulary(
  control: readonly string[] = [],
  others: readonly string[] = [],
): Vocabulary {
  const texts = ["<end>", "<start>", ...words, ...more, ...others, ...control];
  const firstControl = texts.length - control.length;
  const wordCount = texts.length;
  return new Vocabulary({
    size: wordCount + 256,
    kind: "spm",
    text: (token) =>
      token < wordCount
        ? texts[token]!.replaceAll(" ", "▁")
        : `<0x${(token - wordCount).toString(16).toUpperCase().padStart(2, "0")}>`,
    attributes: (token) => {
      if (token >= wordCount) return 32;
      return token < 2 || token >= firstControl ? 8 : 4;
    },
    isEnd: (token) => token === endToken,
  });
}

/** The longest token that fits, again and again. */
export function tokenizeGreedily(vocabulary: Vocabulary, text: string): number[] {
  const bytes = Buffer.from(text);
  const tokens: number[] = [];
  for (let at = 0; at < bytes.length; ) {
    let best = -1;
    for (let token = 0; token < vocabulary.size; token++) {
      const its = vocabulary.bytes(token);
      if (its.length === 0 || !bytes.subarray(at, at + its.length).equals(its)) continue;
      if (best < 0 || its.length > vocabulary.bytes(best).length) best = token;
    }
    tokens.push(best);
    at += vocabulary.bytes(best).length;
  }
  return tokens;
}

/** The text of tokens. */
export function textOf(vocabulary: Vocabulary, tokens: readonly number[]): string {
  return Buffer.concat(tokens.map((token) => vocabulary.bytes(token))).toString("utf8");
}
