import { describe, expect, it } from "vitest";
import { ChatTemplate } from "../../../src/engines/weights/chat-template.ts";
import { askedCalls } from "../../../src/engines/weights/tool-calling.ts";
import {
  type ChatMessage,
  greedyParameters,
  type InferenceRequest,
} from "../../../src/foundation/inference.ts";

const templateOf = (source: string) => () => new ChatTemplate(source, { bos: "", eos: "" });
const withTools = templateOf("{{ tools }}<tool_call>{{ messages }}");
const without = templateOf("{{ messages }}");

const grammar = { root: { kind: "text" as const, text: "{}" }, rules: {} };
const tools = ["weather", "time"].map((name) => ({ type: "function", function: { name } }));
const asking = (rest: Partial<InferenceRequest> = {}): InferenceRequest => ({
  messages: [{ role: "user", content: "Rain?" }],
  parameters: { ...greedyParameters, maxNewTokens: 9, seed: 0 },
  ...{ tools, argumentGrammars: { weather: grammar, time: grammar } },
  ...rest,
});
const named = (name: string) => ({ type: "function" as const, function: { name } });
const result: ChatMessage = { role: "tool", content: "no", toolCallId: "1" };

describe("askedCalls", () => {
  it("allows any of the tools, once or several times", () => {
    const { argumentGrammars, ...rest } = askedCalls(asking(), withTools)!;
    expect(Object.keys(argumentGrammars)).toEqual(["weather", "time"]);
    expect(rest).toMatchObject({ isForced: false, isParallel: true });
    expect(askedCalls(asking({ toolChoice: "required" }), withTools)!.isForced).toBe(true);
    expect(askedCalls(asking({ parallelToolCalls: false }), withTools)!.isParallel).toBe(false);
  });

  it("allows a named tool alone, once", () => {
    const calls = askedCalls(asking({ toolChoice: named("time") }), withTools)!;
    expect(Object.keys(calls.argumentGrammars)).toEqual(["time"]);
    expect(calls).toMatchObject({ isForced: true, isParallel: false });
  });

  it("asks for none without tools, or where they must not be called", () => {
    const { tools: _, ...plain } = asking();
    const never = () => expect.unreachable("the template was read");
    expect(askedCalls(plain, never)).toBeUndefined();
    expect(askedCalls(asking({ toolChoice: "none" }), never)).toBeUndefined();
    expect(askedCalls({ ...plain, messages: [result] }, withTools)).toBeUndefined();
  });

  it.each([
    ["tools of a template without them", asking(), without, "PARAMETER_UNSUPPORTED", "tools"],
    [
      "results for a template without tools",
      asking({ messages: [result], toolChoice: "none" }),
      ...[without, "PARAMETER_UNSUPPORTED", "messages[0]"],
    ],
    [
      "a form of calls that is not known",
      asking(),
      ...[templateOf("{{ tools }}<function="), "PARAMETER_UNSUPPORTED", "tools"],
    ],
    [
      "a choice that is none of the tools",
      asking({ toolChoice: named("rain") }),
      ...[withTools, "PARAMETER_INVALID", "toolChoice"],
    ],
    [
      "a choice among several",
      asking({ toolChoice: { type: "allowed_tools", allowed_tools: {} } }),
      ...[withTools, "PARAMETER_UNSUPPORTED", "toolChoice.type"],
    ],
    [
      "a tool without a grammar",
      asking({ argumentGrammars: { weather: grammar } }),
      ...[withTools, "PARAMETER_UNSUPPORTED", "tools"],
    ],
  ] as [string, InferenceRequest, () => ChatTemplate, string, string][])(
    "refuses %s",
    (_, request, template, code, field) => {
      expect(() => askedCalls(request, template)).toThrow(
        expect.objectContaining({ code, place: expect.objectContaining({ field }) }),
      );
    },
  );
});
