import { describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { openedEngine } from "../../src/engines/opened-engine.ts";
import type { AnswerDelta, InferenceRequest, OnDelta } from "../../src/foundation/inference.ts";
import { chatRequest, rejectionOf } from "./engine-context.ts";

const never = new AbortController().signal;
const usage = { promptTokens: 1, cachedTokens: 0, completionTokens: 2 };

/** An engine that answers with these texts, and tells what `speak` tells. */
function speaking(texts: readonly string[], speak: (tell: OnDelta) => void = () => {}): Engine {
  return {
    name: "speaking",
    capacity: 1,
    async infer(_request, _signal, onDelta) {
      if (onDelta) speak(onDelta);
      const answers = texts.map((text) => ({ text, finishReason: "stop" as const, tokens: 2 }));
      return { answers, usage, seconds: 0 };
    },
    async close() {},
  };
}

async function heardFrom(engine: Engine, signal = never): Promise<AnswerDelta[]> {
  const deltas: AnswerDelta[] = [];
  await openedEngine(engine, {}).infer(chatRequest(0), signal, (delta) => void deltas.push(delta));
  return deltas;
}

describe("openedEngine", () => {
  it("tells the whole answers of an engine that tells nothing", async () => {
    expect(await heardFrom(speaking(["one", "", "two"]))).toEqual([
      { choice: 0, text: "one", tokens: 2 },
      { choice: 2, text: "two", tokens: 2 },
    ]);
  });

  it("passes deltas on, and tells what they left out", async () => {
    const engine = speaking(["abc", "d"], (tell) => {
      for (const text of ["a", "", "b"]) tell({ choice: 0, text });
    });
    expect((await heardFrom(engine)).map(({ text }) => text)).toEqual(["a", "b", "c", "d"]);
  });

  it("refuses an answer that is not what was told of it", async () => {
    const engine = speaking(["abc"], (tell) => tell({ choice: 0, text: "x" }));
    expect(await rejectionOf(heardFrom(engine))).toMatchObject({ code: "RESPONSE_MALFORMED" });
  });

  it("tells nothing after an abort, and nothing once it is over", async () => {
    const controller = new AbortController();
    const reason = new Error("enough");
    let late: OnDelta | undefined;
    const engine = speaking(["abc"], (tell) => {
      late = tell;
      for (const text of ["a", "b"]) tell({ choice: 0, text });
    });
    const texts: string[] = [];
    const tell: OnDelta = ({ text }) => {
      texts.push(text);
      controller.abort(reason);
    };
    const told = openedEngine(engine, {}).infer(chatRequest(0), controller.signal, tell);
    expect(await rejectionOf(told)).toBe(reason);
    const heard = await heardFrom(engine);
    late!({ choice: 0, text: "late" });
    expect(texts).toEqual(["a"]);
    expect(heard.map(({ text }) => text)).toEqual(["a", "b", "c"]);
  });
});

describe("an opened engine that takes words alone", () => {
  const call = { id: "c", type: "function", function: { name: "f", arguments: "" } } as const;
  const image = { type: "image", url: "data:image/png;base64,AA==" } as const;
  const refusals: [string, Partial<InferenceRequest>, string][] = [
    ["tools", { tools: [{ type: "function" }] }, "tools"],
    ["a choice of tools", { toolChoice: "auto" }, "toolChoice"],
    ["several calls at once", { parallelToolCalls: true }, "parallelToolCalls"],
    [
      "what a tool gave",
      { messages: [{ role: "tool", content: "5", toolCallId: "c" }] },
      "messages[0].role",
    ],
    [
      "calls in messages",
      { messages: [{ role: "assistant", content: "", toolCalls: [call] }] },
      "messages[0].toolCalls",
    ],
    [
      "an image",
      { messages: [{ role: "user", content: [{ type: "text", text: "a" }, image] }] },
      "messages[0].content[1]",
    ],
    [
      "sound",
      { messages: [{ role: "user", content: [{ type: "audio", data: "", format: "wav" }] }] },
      "messages[0].content[0]",
    ],
  ];

  it.each(refusals)("refuses %s, and says where", async (_, changes, field) => {
    const refused = openedEngine(speaking(["x"]), {}).infer(
      { ...chatRequest(0), ...changes },
      never,
    );
    expect(await rejectionOf(refused)).toMatchObject({
      ...{ code: "PARAMETER_UNSUPPORTED", scope: "row", place: { field } },
      message: expect.stringContaining("engine speaking"),
    });
  });

  it("gets the parts of a text as one text", async () => {
    let got: InferenceRequest["messages"];
    const engine = speaking(["x"]);
    const { infer } = engine;
    engine.infer = (request, ...rest) => {
      got = request.messages;
      return infer(request, ...rest);
    };
    const parts = ["One", "Two"].map((text) => ({ type: "text" as const, text }));
    const messages = [{ role: "user" as const, content: parts }];
    await openedEngine(engine, {}).infer({ ...chatRequest(0), messages }, never);
    expect(got).toEqual([{ role: "user", content: "One\nTwo" }]);
    await openedEngine(engine, { contentParts: ["image"] }).infer(
      { ...chatRequest(0), messages },
      never,
    );
    expect(got).toEqual(messages);
  });
});
