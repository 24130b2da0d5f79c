import { describe, expect, it } from "vitest";
import { toGbnf } from "../../../src/foundation/grammar.ts";
import {
  type Answer,
  greedyParameters,
  type InferenceRequest,
} from "../../../src/foundation/inference.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { ToolForms } from "../../../src/prompt/openai-batch/tool-forms.ts";

const tool = (name: string, parameters?: JsonObject, strict?: boolean): JsonObject => ({
  type: "function",
  function: {
    name,
    ...(parameters !== undefined && { parameters }),
    ...(strict !== undefined && { strict }),
  },
});
const city = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer", multipleOf: 7 } },
  required: ["city"],
};
const answerOf = (name: string, given: string): Answer => ({
  ...{ text: "", finishReason: "stop", tokens: 9 },
  toolCalls: [{ id: "1", type: "function", function: { name, arguments: given } }],
});

/** The forms, and a request with these tools. */
function asked(...tools: JsonObject[]) {
  const forms = new ToolForms();
  const argumentGrammars = forms.ask(tools, {});
  const parameters = { ...greedyParameters, maxNewTokens: 9, seed: 0 };
  const request: InferenceRequest = { tools, argumentGrammars, parameters };
  return { forms, request, argumentGrammars };
}

describe("ToolForms", () => {
  it("gives the grammar of each tool's arguments; none are an empty object", () => {
    const { argumentGrammars } = asked(tool("weather", city), tool("time"));
    expect(Object.keys(argumentGrammars)).toEqual(["weather", "time"]);
    expect(toGbnf(argumentGrammars.weather!)).toContain("city");
    const none = toGbnf(argumentGrammars.time!).replace(/root ::= |[\s()|"]/g, "");
    expect(JSON.parse(`"${none}"`)).toBe("{}");
  });

  it("checks what a grammar cannot say", () => {
    const { forms, request } = asked(tool("weather", city), tool("time"));
    forms.check(request, answerOf("weather", '{"city": "Bern", "days": 14}'));
    forms.check(request, answerOf("time", "{}"));
    const check = () => forms.check(request, answerOf("weather", '{"city": "Bern", "days": 3}'));
    expect(check).toThrow(expect.objectContaining({ code: "ANSWER_INVALID" }));
    expect(check).toThrow(/the arguments of weather: .*7/);
  });

  it("lets a tool that is not strict have any object for a schema that is not supported", () => {
    const open = { type: "object", patternProperties: { "^a": { type: "string" } } };
    const { forms, request } = asked(tool("any", open));
    forms.check(request, answerOf("any", '{"b": [1, {"c": null}]}'));
    expect(() => forms.check(request, answerOf("any", "[1]"))).toThrow(/arguments of any/);
    expect(() => asked(tool("any", open, true))).toThrow(
      expect.objectContaining({
        code: "PARAMETER_UNSUPPORTED",
        place: { field: "body.tools[0].function.parameters.patternProperties" },
      }),
    );
  });

  it("refuses parameters that are no schema", () => {
    expect(() => asked(tool("bad", "text" as never))).toThrow(
      expect.objectContaining({
        ...{ code: "PARAMETER_INVALID", place: { field: "body.tools[0].function.parameters" } },
      }),
    );
  });

  it("checks nothing of a request without grammars", () => {
    const { forms, request } = asked(tool("weather", city));
    const { argumentGrammars: _, ...plain } = request;
    forms.check(plain, answerOf("weather", "{bad"));
  });
});
