import { describe, expect, it } from "vitest";
import { Decoding } from "../../../src/engines/llama/decoding.ts";
import type { BatchItem } from "../../../src/engines/llama/loaded-llama.ts";
import { Scheduler, type SequenceRunner } from "../../../src/engines/llama/scheduler.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { greedyParameters } from "../../../src/foundation/inference.ts";
import { endToken, tinyVocabulary } from "./tiny-vocabulary.ts";

const vocabulary = tinyVocabulary();
const never = new AbortController().signal;
const byteOf = (token: number) => vocabulary.size - 256 + token;

/** A model that counts: after token n comes n + 1, and the end after the tenth byte token. */
class CountingModel implements SequenceRunner {
  readonly held: number[][] = [];
  readonly passes: BatchItem[][] = [];
  copies = 0;
  #outputs: number[] = [];

  async decode(items: readonly BatchItem[]) {
    this.passes.push([...items]);
    this.#outputs = [];
    return items.map(({ sequence, start, tokens, wantsOutput }) => {
      this.held[sequence] ??= [];
      expect(this.held[sequence]).toHaveLength(start);
      this.held[sequence].push(...tokens);
      if (!wantsOutput) return undefined;
      return this.#outputs.push(this.held[sequence].at(-1)!) - 1;
    });
  }

  async sample(output: number) {
    const last = this.#outputs[output]!;
    return last >= byteOf(75) ? endToken : last + 1;
  }

  async logProbabilities(output: number, token: number, top: number) {
    const likeliest = await this.sample(output);
    const ranked = Array.from({ length: top }, (_, at) => likeliest - at);
    const logProbability = (of: number) => -Math.abs(of - likeliest);
    return {
      chosen: logProbability(token),
      top: ranked.map((of) => ({ token: of, logProbability: logProbability(of) })),
    };
  }

  createSampler = () => ({ applyConfig() {}, dispose() {} });

  truncate(sequence: number, keep: number) {
    this.held[sequence]!.length = keep;
    return true;
  }

  async copy(source: number, target: number) {
    this.copies++;
    this.held[target] = [...this.held[source]!];
  }
}

const parameters = {
  ...greedyParameters,
  maxNewTokens: 100,
  seed: 0,
};

function setUp({ sequences = 4, batchTokens = 64, blockTokens = 16 } = {}) {
  const model = new CountingModel();
  const limits = { sequences, batchTokens, blockTokens };
  const scheduler = new Scheduler(model, limits);
  const ask = (prompt: number[], signal = never) =>
    scheduler.run(new Decoding({ prompt, parameters, vocabulary }), signal);
  return { model, scheduler, ask };
}

describe("Scheduler", () => {
  it("answers more prompts than it has sequences, each its own", async () => {
    const { ask } = setUp();
    const starts = Array.from({ length: 20 }, (_, at) => 65 + (at % 10));
    const answers = await Promise.all(starts.map((start) => ask([byteOf(start)])));
    expect(answers.map(({ answer }) => answer.text)).toEqual(
      starts.map((start) => "BCDEFGHIJK".slice(start - 65)),
    );
  });

  it("computes a shared beginning once and copies it", async () => {
    const { ask, model } = setUp();
    const prefix = Array.from({ length: 60 }, (_, at) => byteOf(at));
    const answers = await Promise.all(
      [65, 66, 67, 68].map((start) => ask([...prefix, byteOf(start)])),
    );
    expect(answers.map(({ answer }) => answer.text[0])).toEqual(["B", "C", "D", "E"]);
    expect(answers.map(({ usage }) => usage.cachedTokens)).toEqual([0, 60, 60, 60]);
    expect(model.copies).toBe(3);
  });

  it("keeps passes within the limit, with live sequences in ascending order", async () => {
    const { ask, model } = setUp({ sequences: 4, batchTokens: 8 });
    await Promise.all(
      [30, 3, 17, 1, 40].map((length, at) =>
        ask(Array.from({ length }, (_, token) => byteOf((at * 50 + token) % 60))),
      ),
    );
    for (const items of model.passes) {
      expect(items.reduce((sum, item) => sum + item.tokens.length, 0)).toBeLessThanOrEqual(8);
      const ids = items.map((item) => item.sequence);
      expect(ids).toEqual([...ids].sort((a, b) => a - b));
    }
  });

  it("computes a token in a block or not, whatever is computed beside it", async () => {
    const prompt = Array.from({ length: 45 }, (_, at) => byteOf(at));
    const blocksOf = async (neighbours: number) => {
      const { ask, model } = setUp({ batchTokens: 32 });
      const others = Array.from({ length: neighbours }, (_, at) => ask([byteOf(60 + at)]));
      await Promise.all([...others, ask(prompt)]);
      const sequence = model.held.findIndex((held) => held[0] === prompt[0]);
      const items = model.passes.flat().filter((item) => item.sequence === sequence);
      return items.filter(({ tokens }) => tokens.length >= 16).map(({ start }) => start);
    };
    expect(await blocksOf(0)).toEqual([0]);
    expect(await blocksOf(3)).toEqual([0]);
  });

  it("drops an aborted request, waiting or live, and answers the others", async () => {
    const { ask } = setUp({ sequences: 1, batchTokens: 8 });
    const controller = new AbortController();
    const live = ask([byteOf(0)], controller.signal);
    const waiting = ask([byteOf(0)], controller.signal);
    const other = ask([byteOf(70)]);
    controller.abort(new Error("enough"));
    await expect(live).rejects.toThrow("enough");
    await expect(waiting).rejects.toThrow("enough");
    expect((await other).answer.text).toBe("GHIJK");
  });

  it.each([1, 60])(
    "frees a sequence within one step, in a prompt of %d or after",
    async (length) => {
      const { ask, model } = setUp({ sequences: 1, batchTokens: 8 });
      const leaving = new AbortController();
      const prompt = Array.from({ length }, (_, at) => byteOf(at));
      const left = expect(ask(prompt, leaving.signal)).rejects.toThrow("gone");
      const next = ask([byteOf(70)]);
      const decode = model.decode.bind(model);
      let passesBefore = 0;
      model.decode = async (items) => {
        const outputs = await decode(items);
        if (model.passes.length === 4) {
          leaving.abort(new Error("gone"));
          passesBefore = model.passes.length;
        }
        return outputs;
      };
      await left;
      expect((await next).answer.text).toBe("GHIJK");
      const after = model.passes.slice(passesBefore).flat();
      // The other prompt begins at 0.
      expect(after.findIndex(({ start }) => start === 0)).toBeLessThanOrEqual(1);
    },
  );

  it("ends the request alone whose next token cannot be chosen", async () => {
    const { scheduler, ask } = setUp();
    const decoding = new Decoding({ prompt: [byteOf(65)], parameters, vocabulary });
    decoding.refuses = () => {
      throw new SluiceError("ANSWER_INVALID", "no token closes it");
    };
    const [broken, other] = [scheduler.run(decoding, never), ask([byteOf(70)])];
    await expect(broken).rejects.toMatchObject({ code: "ANSWER_INVALID" });
    expect((await other).answer.text).toBe("GHIJK");
    expect((await ask([byteOf(71)])).answer.text).toBe("HIJK");
  });

  it.each(["decode", "copy"] as const)(
    "fails all requests once %s of the model fails",
    async (call) => {
      const { ask, model } = setUp({ sequences: 2, batchTokens: 8 });
      Object.assign(model, { [call]: () => Promise.reject(new Error(`${call} failed`)) });
      const prefix = Array.from({ length: 60 }, (_, at) => byteOf(at));
      const asked = [65, 66, 67].map((start) => ask([...prefix, byteOf(start)]));
      for (const each of asked) await expect(each).rejects.toThrow(`${call} failed`);
      await expect(ask([byteOf(65)])).rejects.toThrow(`${call} failed`);
    },
  );
});
