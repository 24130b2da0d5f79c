import type { Grammar, GrammarNode } from "../foundation/grammar.ts";
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
    if (at % 2 === 0) return { kind: "text", text: part };
    const slot = slots.find(({ name }) => name === part);
    if (slot === undefined) return { kind: "text", text: `{${part}}` };
    return oneOfTexts([slot.orElse, ...candidateSpans(slot)]);
  });
  return {
    root: { kind: "sequence", items: [{ kind: "text", text: prefix }, ...parts] },
    rules: {},
  };
}

/**
 * One of the texts, as a tree in which each common beginning stands once. XGrammar, which vLLM and
 * OpenVINO use, merges the states of a flat list wrongly: from spans of "bake for 5 min" it then
 * also writes "for 5 min for 5 min".
 */
function oneOfTexts(texts: readonly string[]): GrammarNode {
  const characters = [...new Set(texts)].toSorted().map((text) => [...text]);
  return continuations(characters, 0);
}

/** What may follow the first `from` characters, which all texts share. Texts are sorted. */
function continuations(texts: readonly string[][], from: number): GrammarNode {
  const [first, ...rest] = texts;
  if (first!.length === from) {
    if (rest.length === 0) return { kind: "text", text: "" };
    return { kind: "repeat", item: continuations(rest, from), min: 0, max: 1 };
  }
  const groups = Map.groupBy(texts, (text) => text[from]!);
  const items = Array.from(groups.values(), (group) => {
    const to = sharedLength(group, from);
    const text = group[0]!.slice(from, to).join("");
    const ending = continuations(group, to);
    const isEnd = ending.kind === "text" && ending.text === "";
    const beginning: GrammarNode = { kind: "text", text };
    return isEnd ? beginning : ({ kind: "sequence", items: [beginning, ending] } as const);
  });
  return items.length === 1 ? items[0]! : { kind: "choice", items };
}

/** Length of the beginning that sorted texts share: that of the first and the last one. */
function sharedLength(texts: readonly string[][], from: number): number {
  const first = texts[0]!;
  const last = texts.at(-1)!;
  let length = from;
  while (length < first.length && first[length] === last[length]) length++;
  return length;
}
