import { join } from "node:path";
import { describe, expect, it, type TestContext } from "vitest";
import { commandModel } from "../../../src/engines/command/options.ts";
import { rejectionOf } from "../engine-context.ts";
import { answerTo, promptRequest, withCommand } from "./command-engine.ts";
import { pythonMissing } from "./python.ts";

const script = join(import.meta.dirname, "predictor-program.py");
const never = new AbortController().signal;
const options = commandModel.parse({ engine: "command", command: "python3", args: [script, 8] });

const missing = pythonMissing();
const needsPython = (context: TestContext) => context.skip(missing !== undefined, missing);

describe("python/sluice_predictor.py", () => {
  it("gives items as they are asked, and answers with what is known of them", (context) => {
    needsPython(context);
    return withCommand(options, async (engine, lines) => {
      expect(engine.choices).toMatchObject({ program: "tried", devices: ["cpu"] });
      expect(lines).toContain("debug loading");
      const { answers, usage } = await engine.infer(promptRequest(0, "two words"), never);
      expect(answers).toEqual([{ text: "TWO WORDS", tokens: 3, finishReason: "length" }]);
      expect(usage).toEqual({ promptTokens: 2, cachedTokens: 0, completionTokens: 3 });
      const request = { ...promptRequest(5, "ITEM"), row: { id: 9007 } };
      expect((await engine.infer(request, never)).answers[0]!.value).toEqual({
        ...{ index: 5, name: "answer", row: { id: 9007 }, seed: 3, limit: 20 },
      });
      expect(await answerTo(engine, "WHERE")).toBe("cpu 0");
    });
  });

  it("tells the GPU as PyTorch calls it", (context) => {
    needsPython(context);
    return withCommand({ ...options, devices: [3] }, async (engine) => {
      expect(await answerTo(engine, "WHERE")).toBe("cuda:0 0");
      expect(engine.choices).toMatchObject({ devices: ["cuda:0"] });
    });
  });

  it("ends where its GPU computes nothing any more, and starts again", (context) => {
    needsPython(context);
    return withCommand(options, async (engine) => {
      expect(await rejectionOf(answerTo(engine, "ASSERT"))).toMatchObject({
        code: "ENGINE_DIED",
        message: expect.stringContaining("the GPU computes nothing any more: CUDA error: device"),
      });
      expect(await answerTo(engine, "next")).toBe("NEXT");
    });
  });

  it("keeps whatever is printed away from the answers", (context) => {
    needsPython(context);
    return withCommand(options, async (engine, lines) => {
      expect(await answerTo(engine, "PRINT")).toBe("PRINT");
      expect(await answerTo(engine, "next")).toBe("NEXT");
      expect(lines).toContain("debug from a library in C");
      expect(lines.filter((line) => line.startsWith("warn"))).toEqual([]);
    });
  });

  it("takes any value that JSON can hold, arrays as lists", (context) => {
    needsPython(context);
    return withCommand(options, async (engine) => {
      expect(await answerTo(engine, "VECTOR")).toBe('{"vector":[0.5,1.5]}');
      const outcomes = await Promise.allSettled([answerTo(engine, "NAN"), answerTo(engine, "a")]);
      expect(outcomes[0]).toMatchObject({ reason: { code: "PREDICTION_FAILED" } });
      expect(outcomes[1]).toMatchObject({ value: "A" });
      const { parameters, ...request } = promptRequest(0, "TWICE");
      const twice = { ...request, parameters: { ...parameters, numReturnSequences: 2 } };
      const { answers, usage } = await engine.infer(twice, never);
      expect(answers.map(({ text }) => text)).toEqual(["one", "two"]);
      expect(usage).toEqual({ promptTokens: 4, cachedTokens: 0, completionTokens: 2 });
    });
  });

  it("reports what the code raises, and goes on", (context) => {
    needsPython(context);
    return withCommand(options, async (engine, lines) => {
      const asked = ["a", "RAISE", "LONG", "b"].map((text) => answerTo(engine, text));
      const outcomes = await Promise.allSettled(asked);
      expect(outcomes).toMatchObject([
        { value: "A" },
        { reason: { code: "PREDICTION_FAILED", message: expect.stringContaining("KeyError") } },
        { reason: { code: "PROMPT_TOO_LONG" } },
        { value: "B" },
      ]);
      const few = await rejectionOf(answerTo(engine, "FEW"));
      expect(few).toMatchObject({ code: "RESULTS_MISCOUNTED" });
      expect(lines.join("\n")).toContain("debug Traceback");
      for (const [asked, kind] of [
        ["TEXT", "str"],
        ["DICTIONARY", "dict"],
      ] as const) {
        const message = expect.stringContaining(
          `predict gave a ${kind}, and not a list of results`,
        );
        const error = await rejectionOf(answerTo(engine, asked));
        expect(error).toMatchObject({ code: "PREDICTION_FAILED", message });
      }
      expect(await rejectionOf(answerTo(engine, "NEVER"))).toMatchObject({ code: "UNSUPPORTED" });
      expect(await answerTo(engine, "SIZE")).toBe("1");
    });
  });

  it("recognizes that memory is full, so that batches become smaller", (context) => {
    needsPython(context);
    return withCommand(options, async (engine) => {
      const eight = Array.from({ length: 8 }, () => answerTo(engine, "MEMORY SIZE"));
      expect(await Promise.all(eight)).toEqual(["2", "2", "2", "2", "2", "2", "2", "2"]);
    });
  });
});
