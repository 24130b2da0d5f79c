import { describe, expect, it } from "vitest";
import { tellingDeltas } from "../../src/engines/deltas.ts";
import type { Engine } from "../../src/engines/engine.ts";
import type { AnswerDelta, OnDelta } from "../../src/foundation/inference.ts";
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
  await tellingDeltas(engine).infer(chatRequest(0), signal, (delta) => void deltas.push(delta));
  return deltas;
}

describe("tellingDeltas", () => {
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
    const told = tellingDeltas(engine).infer(chatRequest(0), controller.signal, tell);
    expect(await rejectionOf(told)).toBe(reason);
    const heard = await heardFrom(engine);
    late!({ choice: 0, text: "late" });
    expect(texts).toEqual(["a"]);
    expect(heard.map(({ text }) => text)).toEqual(["a", "b", "c"]);
  });
});
