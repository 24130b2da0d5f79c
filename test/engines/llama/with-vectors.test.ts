import { describe, expect, it } from "vitest";
import type { Engine } from "../../../src/engines/engine.ts";
import { withVectors } from "../../../src/engines/llama/engine.ts";
import type { InferenceRequest } from "../../../src/foundation/inference.ts";
import { chatRequest } from "../engine-context.ts";

/** Says its name for each answer, and notes that it was closed. */
function named(name: string, closed: string[]): Engine {
  const usage = { promptTokens: 1, cachedTokens: 0, completionTokens: 1 };
  const answers = [{ text: name, finishReason: "stop" as const, tokens: 1 }];
  return {
    name,
    capacity: 3,
    infer: async () => ({ answers, usage, seconds: 0 }),
    close: async () => void closed.push(name),
  };
}

const { signal } = new AbortController();
const vectorOf = (index: number): InferenceRequest => ({ ...chatRequest(index), embed: true });

describe("withVectors", () => {
  it("opens the other engine once, and only when a vector is wanted", async () => {
    const closed: string[] = [];
    let opened = 0;
    const engine = withVectors(named("text", closed), async () => {
      opened++;
      return named("vectors", closed);
    });
    const textOf = async (request: InferenceRequest) =>
      (await engine.infer(request, signal)).answers[0]!.text;
    expect([await textOf(chatRequest(0)), opened]).toEqual(["text", 0]);
    const both = await Promise.all([textOf(vectorOf(1)), textOf(vectorOf(2))]);
    expect([both, opened]).toEqual([["vectors", "vectors"], 1]);
    expect([engine.name, engine.capacity]).toEqual(["text", 3]);
    await engine.close();
    expect(closed.sort()).toEqual(["text", "vectors"]);
  });

  it("tries to open it again where that failed, and closes without it", async () => {
    const closed: string[] = [];
    let tries = 0;
    const engine = withVectors(named("text", closed), async () => {
      throw new Error(`try ${++tries}`);
    });
    await expect(engine.infer(vectorOf(0), signal)).rejects.toThrow("try 1");
    await expect(engine.infer(vectorOf(0), signal)).rejects.toThrow("try 2");
    await engine.close();
    expect(closed).toEqual(["text"]);
  });
});
