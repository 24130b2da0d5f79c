import { SluiceError } from "../../foundation/errors.ts";
import {
  choice,
  type Grammar,
  type GrammarNode,
  optional,
  repeat,
  rule,
  sequence,
  text,
} from "../../foundation/grammar.ts";
import type { AnswerStructure } from "../../foundation/inference.ts";
import { isJsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import type { AnswerForm } from "../answer-form.ts";
import { kindOf } from "../value-text.ts";
import { answerJson, withDigits } from "./answer-json.ts";
import { anyCharacter, jsonCharacter } from "./character-set.ts";
import { numberGrammar } from "./number-grammar.ts";

/**
 * The grammar of all JSON objects in the form of `spacedJson`, with at most
 * `limits.maxFreeAnswerDepth` levels of objects and arrays, the object itself included.
 */
function anyObjectGrammar(): Grammar {
  const string = sequence(text('"'), repeat(jsonCharacter(anyCharacter), 0), text('"'));
  const number = numberGrammar({
    ...{ kind: "number", isInteger: false, multipleOf: undefined },
    ...{ minimum: -Infinity, maximum: Infinity },
    ...{ exclusiveMinimum: -Infinity, exclusiveMaximum: Infinity },
  });
  const simple = choice([rule("string"), number, text("true"), text("false"), text("null")]);
  const rules: Record<string, GrammarNode> = { string, simple };
  let value = rule("simple");
  for (let depth = limits.maxFreeAnswerDepth; depth > 1; depth--) {
    rules[`value ${depth}`] = choice([rule("simple"), objectOf(value), listOf(value)]);
    value = rule(`value ${depth}`);
  }
  return { root: objectOf(value), rules };
}

function objectOf(value: GrammarNode): GrammarNode {
  return enclosed("{", sequence(rule("string"), text(": "), value), "}");
}

function listOf(value: GrammarNode): GrammarNode {
  return enclosed("[", value, "]");
}

function enclosed(open: string, item: GrammarNode, close: string): GrammarNode {
  const items = sequence(item, repeat(sequence(text(", "), item), 0));
  return sequence(text(open), optional(items), text(close));
}

/** The form of an answer that may be any JSON object. */
export function anyObjectForm(): AnswerForm {
  const structure: AnswerStructure = Object.freeze({
    schema: { type: "object" },
    grammar: anyObjectGrammar(),
    isAnyObject: true,
  });
  return {
    noun: "JSON",
    variables: [],
    sources: () => [],
    ask: () => ({ structure }),
    accept: (_request, response) => {
      const answers = response.answers.map((answer) => {
        const value = answerJson(answer);
        if (isJsonObject(value)) return { ...answer, value: withDigits(value, answer) };
        throw new SluiceError("ANSWER_INVALID", `it must be an object, not ${kindOf(value)}`);
      });
      return { ...response, answers };
    },
    gather: (values) => [...values],
  };
}
