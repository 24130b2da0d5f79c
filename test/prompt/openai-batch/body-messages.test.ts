import { describe, expect, it } from "vitest";
import type { Json } from "../../../src/foundation/json.ts";
import { messagesOfBody } from "../../../src/prompt/openai-batch/body-messages.ts";

const read = (...messages: Json[]) => messagesOfBody({ messages });

describe("messagesOfBody", () => {
  it("reads texts and parts of text, and developer as system", () => {
    const parts = [
      { type: "text", text: "One" },
      { type: "text", text: "Two" },
    ];
    const messages = read(
      { role: "developer", content: "Be brief." },
      { role: "user", content: parts },
      { role: "assistant", content: "Three", tool_calls: [], refusal: null },
    );
    expect(messages).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "One\nTwo" },
      { role: "assistant", content: "Three" },
    ]);
  });

  it.each<[string, Json, string, string]>([
    ["no role", { content: "x" }, "PARAMETER_MISSING", "body.messages[0].role"],
    ["no content", { role: "user" }, "PARAMETER_MISSING", "body.messages[0].content"],
    ["another role", { role: "owner", content: "" }, "PARAMETER_INVALID", "body.messages[0].role"],
    ["a number", 3, "PARAMETER_INVALID", "body.messages[0]"],
    ["content 3", { role: "user", content: 3 }, "PARAMETER_INVALID", "body.messages[0].content"],
    ["a tool", { role: "tool", content: "x" }, "PARAMETER_UNSUPPORTED", "body.messages[0].role"],
    [
      "an image",
      { role: "user", content: [{ type: "image_url", image_url: {} }] },
      "PARAMETER_UNSUPPORTED",
      "body.messages[0].content[0].type",
    ],
    [
      "a name",
      { role: "user", content: "x", name: "Ann" },
      "PARAMETER_UNSUPPORTED",
      "body.messages[0].name",
    ],
  ])("refuses %s", (_what, message, code, field) => {
    expect(() => read(message)).toThrow(expect.objectContaining({ code, place: { field } }));
  });

  it("says what to do about tools and images", () => {
    const image = { role: "user", content: [{ type: "image_url", image_url: {} }] };
    expect(() => read(image)).toThrow(/"image_url"; messages are text: take the part out/);
    const calls = { role: "assistant", content: "", tool_calls: [{ id: "1" }] };
    for (const message of [calls, { role: "tool", content: "x", tool_call_id: "1" }]) {
      expect(() => read(message)).toThrow(/calls in earlier messages are not taken/);
    }
  });

  it("refuses a body without messages", () => {
    const field = "body.messages";
    const missing = expect.objectContaining({ code: "PARAMETER_MISSING", place: { field } });
    expect(() => messagesOfBody({})).toThrow(missing);
    const invalid = expect.objectContaining({ code: "PARAMETER_INVALID", place: { field } });
    expect(() => read()).toThrow(invalid);
  });
});
