import {
  type Grammar,
  type GrammarNode,
  oneOf,
  optional,
  repeat,
  rule,
  sequence,
  text,
} from "../../foundation/grammar.ts";
import type { Json } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { spacedJson } from "../value-text.ts";
import { anyCharacter, jsonCharacter } from "./character-set.ts";
import { numberGrammar } from "./number-grammar.ts";
import { patternGrammar } from "./pattern-grammar.ts";
import type { ArrayShape, ObjectShape, Shape, Shapes, StringShape } from "./shape.ts";

/**
 * The grammar of the texts that a schema allows: JSON in the form of `spacedJson`, properties in
 * the schema's order. A copying field is a rule named by its key, which each request adds.
 *
 * Not in the grammar, but checked in the answer: `multipleOf`, number bounds beyond sign and
 * digits, `uniqueItems`, a single match of `oneOf`, patterns that `patternGrammar` cannot express,
 * and lengths beside a pattern.
 */
export function shapeGrammar(shapes: Shapes): Grammar {
  const writer = new GrammarWriter();
  const root = writer.write(shapes.root);
  for (const [name, shape] of shapes.rules) writer.rules[name] = writer.write(shape);
  return { root, rules: writer.rules };
}

const character = jsonCharacter(anyCharacter);

/** The grammar of one value, or of any of several values. */
export function constantsGrammar(values: readonly Json[]): GrammarNode {
  return oneOf(values.map((value) => text(spacedJson(value))));
}

class GrammarWriter {
  readonly rules: Record<string, GrammarNode> = {};
  #parts = 0;

  write(shape: Shape): GrammarNode {
    switch (shape.kind) {
      case "constants":
        return constantsGrammar(shape.values);
      case "boolean":
        return oneOf([text("true"), text("false")]);
      case "null":
        return text("null");
      case "string":
        return stringGrammar(shape);
      case "number":
        return numberGrammar(shape);
      case "array":
        return this.#array(shape);
      case "object":
        return this.#object(shape);
      case "alternatives":
        return oneOf(shape.shapes.map((inner) => this.write(inner)));
      case "copy":
        return rule(shape.key);
      case "reference":
        return rule(shape.name);
    }
  }

  #array({ first, rest, minItems, maxItems = limits.maxAnswerElements }: ArrayShape): GrammarNode {
    const most = Math.max(minItems, maxItems);
    let tail: GrammarNode | undefined;
    if (rest !== undefined && most > first.length) {
      const item = this.#shared(this.write(rest), rest);
      if (first.length === 0) return listOf(item, minItems, most);
      const min = Math.max(0, minItems - first.length);
      tail = repeat(sequence(text(", "), item), min, most - first.length);
    }
    for (let at = Math.min(first.length, most) - 1; at >= 0; at--) {
      const own = this.write(first[at]!);
      const items = at === 0 ? [own] : [text(", "), own];
      const upToHere = sequence(...items, ...(tail === undefined ? [] : [tail]));
      tail = at < minItems ? upToHere : optional(upToHere);
    }
    return sequence(text("["), ...(tail === undefined ? [] : [tail]), text("]"));
  }

  #object({ properties }: ObjectShape): GrammarNode {
    const members = properties.map(({ name, shape, isRequired }) => {
      const written = this.write(shape);
      const value = isRequired ? written : this.#shared(written, shape);
      return { member: sequence(text(`${JSON.stringify(name)}: `), value), isRequired };
    });
    const firstRequired = members.findIndex(({ isRequired }) => isRequired);
    const begins: GrammarNode[] = firstRequired < 0 ? [sequence()] : [];
    // The grammar of all members after `at`, built from the last member backwards.
    let tail: GrammarNode[] = [];
    for (let at = members.length - 1; at >= 0; at--) {
      const { member, isRequired } = members[at]!;
      if (firstRequired < 0 || at <= firstRequired) {
        begins.push(sequence(member, ...tail.toReversed()));
      }
      const following = sequence(text(", "), member);
      if (isRequired) tail.push(following);
      else tail = [this.#rule(sequence(optional(following), ...tail.toReversed()))];
    }
    return sequence(text("{"), oneOf(begins.toReversed()), text("}"));
  }

  /** Makes a rule of a part that is used in several places; nesting would otherwise multiply it. */
  #shared(node: GrammarNode, shape: Shape): GrammarNode {
    const isSmall = ["boolean", "null", "copy", "reference"].includes(shape.kind);
    return isSmall ? node : this.#rule(node);
  }

  #rule(node: GrammarNode): GrammarNode {
    const name = `part ${++this.#parts}`;
    this.rules[name] = node;
    return rule(name);
  }
}

function listOf(item: GrammarNode, min: number, max: number): GrammarNode {
  const more = repeat(sequence(text(", "), item), Math.max(0, min - 1), max - 1);
  const elements = sequence(item, more);
  return sequence(text("["), min === 0 ? optional(elements) : elements, text("]"));
}

function stringGrammar({ minLength, maxLength, pattern }: StringShape): GrammarNode {
  const matching = pattern === undefined ? undefined : patternGrammar(pattern.text);
  const content = matching ?? repeat(character, minLength, maxLength);
  return sequence(text('"'), content, text('"'));
}
