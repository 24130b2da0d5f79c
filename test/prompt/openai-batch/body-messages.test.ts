import { describe, expect, it } from "vitest";
import type { Json } from "../../../src/foundation/json.ts";
import {
  messagesOfBody,
  type TakenOfChats,
} from "../../../src/prompt/openai-batch/body-messages.ts";

const textAlone = { callsTools: false, contentParts: [] };
const all: TakenOfChats = { callsTools: true, contentParts: ["image", "audio"] };
const read = (...messages: Json[]) => messagesOfBody({ messages }, textAlone);
const readAll = (...messages: Json[]) => messagesOfBody({ messages }, all);

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

  const call = { id: "c1", type: "function", function: { name: "weather", arguments: "{}" } };

  it("reads calls of tools and their results", () => {
    const messages = readAll(
      { role: "user", content: "Rain?" },
      { role: "assistant", content: null, tool_calls: [call], refusal: null },
      { role: "tool", tool_call_id: "c1", content: [{ type: "text", text: "Sun" }] },
      { role: "assistant", content: "No.", tool_calls: [] },
    );
    expect(messages).toEqual([
      { role: "user", content: "Rain?" },
      { role: "assistant", content: "", toolCalls: [call] },
      { role: "tool", content: "Sun", toolCallId: "c1" },
      { role: "assistant", content: "No." },
    ]);
  });

  it("takes the name of a tool in its result if it is that of the call", () => {
    const result = { role: "tool", tool_call_id: "c1", content: "Sun" };
    const calls = { role: "assistant", content: null, tool_calls: [call] };
    const named = readAll(calls, { ...result, name: "weather" });
    expect(named[1]).toEqual({ role: "tool", content: "Sun", toolCallId: "c1" });
    const field = "body.messages[1].name";
    const refused = expect.objectContaining({ code: "PARAMETER_UNSUPPORTED", place: { field } });
    expect(() => readAll(calls, { ...result, name: "time" })).toThrow(refused);
  });

  it("reads images and sound of the user", () => {
    const image = { url: "data:image/png;base64,AA==", detail: "low" };
    const parts: Json[] = [
      { type: "text", text: "What is it?" },
      { type: "image_url", image_url: image },
      { type: "input_audio", input_audio: { data: "AA==", format: "wav" } },
    ];
    expect(readAll({ role: "user", content: parts })).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "What is it?" },
          { type: "image", ...image },
          { type: "audio", data: "AA==", format: "wav" },
        ],
      },
    ]);
  });

  const own = "body.messages[0]";
  const user = (part: Json): Json => ({ role: "user", content: [part] });
  const image = (value: Json) => user({ type: "image_url", image_url: value });
  const sound = (value: Json) => user({ type: "input_audio", input_audio: value });
  it.each<[string, Json, string, string]>([
    ["a result without its call", { role: "tool", content: "x" }, "MISSING", ".tool_call_id"],
    ["a result of 3", { role: "tool", tool_call_id: "c", content: 3 }, "INVALID", ".content"],
    ["a result without content", { role: "tool", tool_call_id: "c" }, "MISSING", ".content"],
    ["calls of the user", { role: "user", tool_calls: [call] }, "UNSUPPORTED", ".tool_calls"],
    ["no list", { role: "assistant", tool_calls: {} }, "INVALID", ".tool_calls"],
    ["no call", { role: "assistant", tool_calls: [3] }, "INVALID", ".tool_calls[0]"],
    [
      "arguments that are no text",
      { role: "assistant", tool_calls: [{ ...call, function: { name: "f", arguments: {} } }] },
      "INVALID",
      ".tool_calls[0].function.arguments",
    ],
    ["a file as image", image({ url: "/etc/motd" }), "INVALID", ".content[0].image_url.url"],
    ["no image", image(null), "MISSING", ".content[0].image_url"],
    [
      "an unknown detail",
      image({ url: "https://a.example/b.png", detail: "best" }),
      "INVALID",
      ".content[0].image_url.detail",
    ],
    ["no sound", sound(null), "MISSING", ".content[0].input_audio"],
    [
      "another format",
      sound({ data: "AA==", format: "flac" }),
      "INVALID",
      ".content[0].input_audio.format",
    ],
    ["a video", user({ type: "video_url" }), "UNSUPPORTED", ".content[0].type"],
    [
      "an image of the system",
      { role: "system", content: [{ type: "image_url", image_url: {} }] },
      "UNSUPPORTED",
      ".content[0].type",
    ],
  ])("refuses %s where tools and parts are taken", (_what, message, code, place) => {
    const fault = { code: `PARAMETER_${code}`, place: { field: own + place } };
    expect(() => readAll(message)).toThrow(expect.objectContaining(fault));
  });

  it("refuses a body without messages", () => {
    const field = "body.messages";
    const missing = expect.objectContaining({ code: "PARAMETER_MISSING", place: { field } });
    expect(() => messagesOfBody({}, textAlone)).toThrow(missing);
    const invalid = expect.objectContaining({ code: "PARAMETER_INVALID", place: { field } });
    expect(() => read()).toThrow(invalid);
  });
});
