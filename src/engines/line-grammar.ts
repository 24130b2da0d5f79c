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
    const texts = [slot.orElse, ...candidateSpans(slot)];
    return { kind: "choice", items: texts.map((text) => ({ kind: "text", text })) };
  });
  return {
    root: { kind: "sequence", items: [{ kind: "text", text: prefix }, ...parts] },
    rules: {},
  };
}
