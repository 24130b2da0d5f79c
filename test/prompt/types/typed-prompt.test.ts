import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { userDefinedType } from "../../../src/prompt/types/type-options.ts";
import {
  compileTypedPrompt,
  type TypedPromptOptions,
} from "../../../src/prompt/types/typed-prompt.ts";

const compile = (options: TypedPromptOptions) => compileTypedPrompt(options, "prompts.p");
const refusal = (options: TypedPromptOptions): unknown => {
  try {
    return compile(options);
  } catch (error) {
    return String(error);
  }
};
const asked = (options: TypedPromptOptions, row: JsonObject) => {
  const typed = compile(options);
  return typed.asks(row).map((ask) => typed.content(ask, ["own"]));
};
const talk = {
  messages: [
    { role: "user", content: "q1" },
    { role: "assistant", content: "a1" },
    { role: "user", content: "q2" },
  ],
};

describe("a job's words about a type", () => {
  it("are refused with the nearest name, and with what the type takes", () => {
    expect(refusal({ type: "alpacca" })).toMatch(/no prompt type alpacca; did you mean alpaca\?/);
    expect(refusal({ type: "raw" })).toMatch(/prompts\.p\.type/);
    expect(refusal({ type: "alpaca", typeOptions: { field: "x" } })).toMatch(
      /type alpaca takes no options.*prompts\.p\.typeOptions\.field/,
    );
    expect(refusal({ type: "completion", typeOptions: { field_human: "x" } })).toMatch(
      /type completion takes field /,
    );
    const type = userDefinedType.parse({});
    expect(refusal({ type, typeOptions: { field: "x" } })).toMatch(/typeOptions\.field/);
  });

  it("are refused where they contradict each other", () => {
    expect(refusal({ type: "alpaca", turns: "last" })).toMatch(/prompts\.p\.turns/);
    expect(refusal({ type: "chat_template", api: "completion" })).toMatch(/prompts\.p\.api/);
    const typeOptions = { message_field_role: "a", message_property_mappings: { role: "b" } };
    expect(refusal({ type: "chat_template", typeOptions })).toMatch(
      /prompts\.p\.typeOptions\.message_field_role/,
    );
  });

  it("are refused for formats with unknown names or lone braces", () => {
    const own = (format: string) => ({ type: userDefinedType.parse({ format }) });
    expect(refusal(own("{question}"))).toMatch(/\{question\}.*prompts\.p\.type\.format/);
    expect(refusal(own("{instruction"))).toMatch(/\{ stands alone/);
    expect(refusal(own("{}"))).toMatch(/\{\} is not known/);
    expect(refusal({ type: userDefinedType.parse({ no_input_format: "{input}" }) })).toMatch(
      /no_input_format/,
    );
  });

  it("take the older names of a message's keys", () => {
    const typeOptions = { message_field_role: "from", message_field_content: "value" };
    const row = { messages: [{ from: "human", value: "Hi" }] };
    expect(asked({ type: "chat_template", typeOptions }, row)).toEqual([
      { messages: [{ role: "user", content: "Hi" }] },
    ]);
  });
});

describe("a typed prompt", () => {
  it("is a completion for a text, a chat for a conversation, and the other where told", () => {
    expect(compile({ type: "alpaca" }).api).toBe("completion");
    expect(compile({ type: "chat_template" }).api).toBe("chat");
    expect(compile({ type: "pygmalion" }).api).toBe("completion");
    expect(asked({ type: "completion", api: "chat" }, { text: "Hi" })).toEqual([
      { messages: [{ role: "user", content: "Hi" }] },
    ]);
    const row = { conversations: [{ role: "human", value: "Hi" }] };
    expect(asked({ type: "pygmalion", api: "chat" }, row)).toEqual([
      { messages: [{ role: "user", content: "Hi" }] },
    ]);
  });

  it("asks every turn with the model's own answers, as messages or as text", () => {
    const chat = asked({ type: "chat_template", turns: "every" }, talk) as { messages: object[] }[];
    expect(chat.map(({ messages }) => messages.length)).toEqual([1, 3]);
    expect(chat[1]!.messages[1]).toEqual({ role: "assistant", content: "own" });
    const typeOptions = { conversation: "chatml" as const };
    const text = asked({ type: "sharegpt.load_ultrachat", typeOptions, turns: "every" }, talk);
    expect(text).toHaveLength(2);
    expect(JSON.stringify(text[1])).toContain("assistant\\nown<|im_end|>");
  });

  it("reads a list that is kept as JSON text", () => {
    const row = { messages: JSON.stringify(talk.messages) };
    expect(asked({ type: "chat_template" }, row)).toEqual(asked({ type: "chat_template" }, talk));
  });

  it("needs no expected answer in the row", () => {
    expect(asked({ type: "gpteacher" }, { instruction: "Greet." })).toHaveLength(1);
    expect(asked({ type: "reflection" }, { instruction: "Greet.", input: null })).toHaveLength(1);
  });
});

describe("a row that does not suit its type", () => {
  const cases: [type: string, row: JsonObject, code: string, field: string][] = [
    ["alpaca", { input: "x" }, "VARIABLE_MISSING", "instruction"],
    ["alpaca", { instruction: null }, "FIELD_TYPE", "instruction"],
    ["alpaca", { instruction: ["x"] }, "FIELD_TYPE", "instruction"],
    ["alpaca", { instruction: "x", input: {} }, "FIELD_TYPE", "input"],
    ["oasst", { instruction: "x" }, "VARIABLE_MISSING", "INSTRUCTION"],
    ["explainchoice", { question: "x", choices: "a, b" }, "FIELD_TYPE", "choices"],
    ["explainchoice", { question: "x", choices: ["a", null] }, "FIELD_TYPE", "choices[1]"],
    ["sharegpt", { messages: [] }, "VARIABLE_MISSING", "conversations"],
    ["sharegpt", { conversations: [{ from: "human" }] }, "VARIABLE_MISSING", "[0].value"],
    ["sharegpt", { conversations: [{ from: "bing", value: "" }] }, "FIELD_TYPE", "[0].from"],
    ["chat_template", { messages: ["x", 3] }, "FIELD_TYPE", "messages[0]"],
    ["chat_template", { messages: [{ role: "tool", content: "" }] }, "FIELD_TYPE", "[0].role"],
    [
      "chat_template",
      { messages: [{ role: "user", content: [{ type: "image_url" }] }] },
      "FIELD_TYPE",
      "messages[0].content[0]",
    ],
    ["input_output", { segments: [{ text: "x" }] }, "FIELD_TYPE", "segments[0].label"],
  ];

  it.each(cases)("%s %j", (type, row, code, field) => {
    const typed = compile({ type });
    expect(() => typed.asks(row)).toThrow(
      expect.objectContaining({
        code,
        message: expect.stringContaining("prompts.p.type"),
        place: expect.objectContaining({ field: expect.stringContaining(field) }),
      }),
    );
  });

  it("fails when its conversation asks nothing", () => {
    const row = { messages: [{ role: "assistant", content: "Hello." }] };
    expect(() => compile({ type: "chat_template" }).asks(row)).toThrow(/has no message to answer/);
  });
});
