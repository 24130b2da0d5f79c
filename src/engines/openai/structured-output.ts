import { SluiceError } from "../../foundation/errors.ts";
import { type Grammar, toGbnf } from "../../foundation/grammar.ts";
import type { AnswerStructure, InferenceRequest } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";

/** How a server is asked to keep to a schema; `none`: answers are only checked. */
export type StructuredOutput = "response-format" | "grammar" | "structured-outputs" | "none";

/**
 * The fields of a body that request a structure: OpenAI's documented one, llama-server's `grammar`,
 * or vLLM's `structured_outputs`.
 */
export function structureFields(
  { schema, grammar, isAnyObject = false }: AnswerStructure,
  by: StructuredOutput,
): Record<string, Json> {
  switch (by) {
    case "response-format": {
      if (isAnyObject) return { response_format: { type: "json_object" } };
      const named = { name: "answer", schema, strict: isStrict(schema) };
      return { response_format: { type: "json_schema", json_schema: named } };
    }
    case "structured-outputs":
      if (isAnyObject) return { structured_outputs: { json_object: true } };
      return grammarFields(grammar, by);
    default:
      return grammarFields(grammar, by);
  }
}

/** The fields that request texts of a grammar; none for a server that only takes schemas. */
export function grammarFields(grammar: Grammar, by: StructuredOutput): Record<string, Json> {
  if (by === "grammar") return { grammar: toGbnf(grammar) };
  return by === "structured-outputs" ? { structured_outputs: { grammar: toGbnf(grammar) } } : {};
}

/** Keywords that OpenAI refuses in a strict schema. */
const notStrict = new Set(["minLength", "maxLength", "uniqueItems", "prefixItems"]);

/** Whether OpenAI can guarantee a schema. */
function isStrict(schema: JsonObject): boolean {
  return schema.type === "object" && isStrictWithin(schema);
}

function isStrictWithin(schema: JsonObject): boolean {
  if (Object.keys(schema).some((key) => notStrict.has(key))) return false;
  const properties = isJsonObject(schema.properties) ? schema.properties : {};
  const required = schema.required ?? [];
  const isComplete = Array.isArray(required) && required.length === Object.keys(properties).length;
  const definitions = isJsonObject(schema.$defs) ? schema.$defs : {};
  const alternatives = Array.isArray(schema.anyOf) ? schema.anyOf : [];
  const inner = [...Object.values(properties), ...Object.values(definitions), ...alternatives];
  if (schema.items !== undefined) inner.push(schema.items);
  return isComplete && inner.every((it) => isJsonObject(it) && isStrictWithin(it));
}

/** Messages of servers that do not know the field, or cannot use its content. */
const aboutStructure = /response_?format|json_?schema|structured.?output|guided|grammar|schema/i;

const others: Record<StructuredOutput, string> = {
  "response-format":
    "grammar (llama-server), structured-outputs (vLLM) or none (answers are checked)",
  grammar: "response-format, structured-outputs (vLLM) or none (answers are checked)",
  "structured-outputs": "response-format, grammar (llama-server) or none (answers are checked)",
  none: "",
};

/**
 * The error of a request with a form, with advice. A schema that all rows have would be refused for
 * each of them: that ends the run.
 */
export function withStructureHint(
  error: SluiceError,
  { structure, slottedLine }: InferenceRequest,
  by: StructuredOutput,
): SluiceError {
  if ((structure === undefined && slottedLine === undefined) || by === "none") return error;
  if (error.code !== "REQUEST_REFUSED" && error.code !== "SERVER_ERROR") return error;
  if (!aboutStructure.test(error.message)) return error;
  const { copies, isAnyObject = false } = structure ?? {};
  // OpenAI takes the mode for any object only with messages that mention JSON.
  const isOfRow = structure === undefined || copies !== undefined || isAnyObject;
  const code = isOfRow ? "REQUEST_REFUSED" : "STRUCTURE_REFUSED";
  const hint = `set model.structuredOutput to ${others[by]}`;
  return new SluiceError(code, error.message, { hint, server: error.server, cause: error });
}
