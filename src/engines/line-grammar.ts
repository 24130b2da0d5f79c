import {
  type Grammar,
  type GrammarNode,
  oneOf,
  optional,
  sequence,
  text,
} from "../foundation/grammar.ts";
import type { SlottedLine } from "../foundation/inference.ts";
import { candidateSpans } from "../foundation/spans.ts";

/**
 * All possible texts of a slotted line: its literal parts and, in each slot, `orElse` or a copied
 * span, so that a model can choose spans but cannot invent words.
 *
 * @param prefix is written before the line, such as the space before a word.
 * @throws SluiceError `FIELD_TYPE` if a slot's source is too long to copy from.
 */
export function lineGrammar({ line, slots }: SlottedLine, prefix: string): Grammar {
  const parts = line.split(/\{([^{}]+)\}/).map((part, at): GrammarNode => {
    if (at % 2 === 0) return text(part);
    const slot = slots.find(({ name }) => name === part);
    if (slot === undefined) return text(`{${part}}`);
    return oneOfTexts([slot.orElse, ...candidateSpans(slot)]);
  });
  return { root: sequence(text(prefix), ...parts), rules: {} };
}

/**
 * One of the texts, as a tree in which each common beginning stands once. XGrammar, which vLLM and
 * OpenVINO use, merges the states of a flat list wrongly: from spans of "bake for 5 min" it then
 * also writes "for 5 min for 5 min".
 */
function oneOfTexts(texts: readonly string[]): GrammarNode {
  const characters = [...new Set(texts)].toSorted().map((each) => [...each]);
  return continuations(characters, 0);
}

/** What may follow the first `from` characters, which all texts share. Texts are sorted. */
function continuations(texts: readonly string[][], from: number): GrammarNode {
  const [first, ...rest] = texts;
  if (first!.length === from) {
    return rest.length === 0 ? text("") : optional(continuations(rest, from));
  }
  const groups = Map.groupBy(texts, (each) => each[from]!);
  const items = Array.from(groups.values(), (group) => {
    const to = sharedLength(group, from);
    const beginning = text(group[0]!.slice(from, to).join(""));
    const ending = continuations(group, to);
    const isEnd = ending.kind === "text" && ending.text === "";
    return isEnd ? beginning : sequence(beginning, ending);
  });
  return oneOf(items);
}

/** Length of the beginning that sorted texts share: that of the first and the last one. */
function sharedLength(texts: readonly string[][], from: number): number {
  const first = texts[0]!;
  const last = texts.at(-1)!;
  let length = from;
  while (length < first.length && first[length] === last[length]) length++;
  return length;
}
