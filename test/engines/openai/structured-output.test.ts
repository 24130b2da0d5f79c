import { describe, expect, it } from "vitest";
import { RequestWriter } from "../../../src/engines/openai/request-body.ts";
import {
  type StructuredOutput,
  structureFields,
  withStructureHint,
} from "../../../src/engines/openai/structured-output.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import type { AnswerStructure } from "../../../src/foundation/inference.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { chatRequest } from "../engine-context.ts";

const grammar = { root: { kind: "text" as const, text: "{}" }, rules: {} };
const text = { type: "string" };
const closed = { additionalProperties: false };
const structure: AnswerStructure = {
  schema: { type: "object", properties: { a: text }, required: ["a"], ...closed },
  grammar,
};
const request = { ...chatRequest(1), structure };
const bodyOf = (by?: StructuredOutput, isOpenaiItself = false, asked: object = request) =>
  JSON.parse(new RequestWriter("m", isOpenaiItself, by).write({ ...chatRequest(1), ...asked }));

describe("the structure of answers in a request", () => {
  const plain = bodyOf("response-format", false, { structure: undefined });

  it("is sent as each kind of server takes it", () => {
    expect(bodyOf()).toEqual({
      ...plain,
      response_format: {
        type: "json_schema",
        json_schema: { name: "answer", schema: structure.schema, strict: true },
      },
    });
    const gbnf = 'root ::= "{}"\n';
    expect(bodyOf("grammar")).toEqual({ ...plain, grammar: gbnf });
    expect(bodyOf("structured-outputs")).toEqual({
      ...plain,
      structured_outputs: { grammar: gbnf },
    });
    expect(bodyOf("none")).toEqual(plain);
  });

  it("is any object, in the words of servers that have a mode for it", () => {
    const asked = { structure: { schema: { type: "object" }, grammar, isAnyObject: true } };
    const sent = (by: StructuredOutput) => bodyOf(by, false, asked);
    expect(sent("response-format")).toEqual({ ...plain, response_format: { type: "json_object" } });
    expect(sent("grammar")).toEqual({ ...plain, grammar: 'root ::= "{}"\n' });
    expect(sent("structured-outputs")).toEqual({
      ...plain,
      structured_outputs: { json_object: true },
    });
    const message = "'messages' must contain the word 'json' in some form, to use response_format";
    const refusal = new SluiceError("REQUEST_REFUSED", message);
    const request = { ...chatRequest(1), ...asked };
    expect(withStructureHint(refusal, request, "response-format").code).toBe("REQUEST_REFUSED");
  });

  it("is a grammar of lines and of what they may copy, where the server takes one", () => {
    const slot = { name: "heat", source: "At 400 degrees.", orElse: "none", maxWords: 2 };
    const slottedLine = { line: "heat={heat}", slots: [slot] };
    const sent = (by: StructuredOutput) => bodyOf(by, false, { slottedLine });
    const { grammar } = sent("grammar");
    const spans = '(("400" " degrees"{0,1}) | ("At" " 400"{0,1}) | "degrees" | "none")';
    expect(grammar).toBe(`root ::= ("" "heat=" ${spans} "")\n`);
    expect(sent("structured-outputs").structured_outputs).toEqual({ grammar });
    expect([sent("response-format"), sent("none")]).toEqual([plain, plain]);
    const refusal = new SluiceError("REQUEST_REFUSED", "failed to parse grammar");
    const hinted = withStructureHint(refusal, { ...chatRequest(1), slottedLine }, "grammar");
    expect(hinted.hint).toContain("model.structuredOutput");
  });

  it("is sent with completions too, but not to OpenAI, whose completions know none", () => {
    const asked = { messages: undefined, prompt: "x", structure };
    expect(bodyOf("response-format", false, asked)).toHaveProperty("response_format");
    expect(bodyOf("response-format", true, asked)).not.toHaveProperty("response_format");
    expect(bodyOf("response-format", true)).toHaveProperty("response_format");
  });

  it("is that of each request, also where one writer writes several", () => {
    const writer = new RequestWriter("m", false);
    const other = { ...structure, schema: text };
    const schemas = [structure, structure, other, structure].map(
      (each) =>
        JSON.parse(writer.write({ ...request, structure: each })).response_format.json_schema
          .schema,
    );
    expect(schemas).toEqual([structure.schema, structure.schema, text, structure.schema]);
    expect(JSON.parse(writer.write(chatRequest(1)))).toEqual({ ...plain, model: "m" });
  });

  it("is asked to be kept strictly only where OpenAI can do that", () => {
    const isStrict = (schema: JsonObject) =>
      JSON.stringify(structureFields({ schema, grammar }, "response-format")).includes(
        '"strict":true',
      );
    const objectOf = (properties: JsonObject, required = Object.keys(properties)) => ({
      ...{ type: "object", properties, required },
      ...closed,
    });
    const list = { type: "array", items: objectOf({ b: { anyOf: [text, { type: "null" }] } }) };
    expect(isStrict(objectOf({ a: list }))).toBe(true);
    expect(isStrict(text)).toBe(false);
    expect(isStrict(objectOf({ a: text, b: text }, ["a"]))).toBe(false);
    expect(isStrict(objectOf({ a: { type: "array", items: objectOf({ b: text }, []) } }))).toBe(
      false,
    );
    expect(isStrict(objectOf({ a: { ...text, maxLength: 3 } }))).toBe(false);
    expect(isStrict({ ...objectOf({}), $defs: { a: { ...text, minLength: 3 } } })).toBe(false);
  });
});

describe("a refusal of the structure", () => {
  const refused = new SluiceError("REQUEST_REFUSED", "Invalid schema for response_format");

  it("ends the run where each row would be refused, and says what to set", () => {
    expect(withStructureHint(refused, request, "response-format")).toMatchObject({
      code: "STRUCTURE_REFUSED",
      scope: "run",
      message: expect.stringContaining("Invalid schema for response_format"),
      hint: expect.stringMatching(/^set model\.structuredOutput to grammar .* or none/),
    });
    const copies = [{ name: "a", source: "b", orElse: "", maxWords: 1 }];
    const ofRow = { ...request, structure: { ...structure, copies } };
    expect(withStructureHint(refused, ofRow, "grammar")).toMatchObject({
      code: "REQUEST_REFUSED",
      hint: expect.stringContaining("response-format"),
    });
  });

  it("is not seen in other failures", () => {
    const other = new SluiceError("REQUEST_REFUSED", "temperature is too high");
    expect(withStructureHint(other, request, "grammar")).toBe(other);
    const tooLong = new SluiceError("PROMPT_TOO_LONG", "with response_format");
    expect(withStructureHint(tooLong, request, "grammar")).toBe(tooLong);
    expect(withStructureHint(refused, request, "none")).toBe(refused);
    expect(withStructureHint(refused, chatRequest(1), "grammar")).toBe(refused);
  });
});
