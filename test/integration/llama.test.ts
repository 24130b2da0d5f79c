import { copyFile, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { openLlama, openLlamaFrom } from "../../src/engines/llama/engine.ts";
import type {
  InferenceRequest,
  SamplingParameters,
  SlottedLine,
} from "../../src/foundation/inference.ts";
import { candidateSpans } from "../../src/foundation/spans.ts";
import { engineConformance, keptOpen } from "../conformance/engine-conformance.ts";
import { engineContext, findLlamaFiles } from "./llama-files.ts";
import { complete } from "./llama-requests.ts";

const files = await findLlamaFiles();

const never = new AbortController().signal;
const chat = (content: string, parameters: Partial<SamplingParameters> = {}) => ({
  ...complete("", parameters),
  prompt: undefined,
  messages: [{ role: "user" as const, content }],
});

const shape = { sequences: 4, contextTokens: 256 };
let opened: Promise<Engine> | undefined;
/** One engine for all tests that do not close theirs: loading takes a second of a core. */
const openOnce = () => {
  const name = "smollm2-135m-instruct";
  opened ??= openLlama({ engine: "llama", name, threads: 1, ...shape }, engineContext);
  return opened;
};
afterAll(async () => (await opened)?.close());

describe("openLlama", () => {
  beforeEach((context) => context.skip(files.missing !== undefined, files.missing));

  let engine: Engine;
  const text = async (request: InferenceRequest) =>
    (await engine.infer(request, never)).answers[0]!.text;

  beforeAll(async () => {
    if (files.missing === undefined) engine = await openOnce();
  });

  it("says what it chose", () => {
    expect(engine.choices).toMatchObject({ ...shape, batchTokens: 512 });
    expect(engine.capacity).toBe(8);
  });

  it("answers a conversation through the model's own template", async () => {
    const request = chat("What is 2+2? Answer with one number.");
    const response = await engine.infer(request, never);
    expect(response.answers[0]).toMatchObject({ finishReason: "stop" });
    expect(response.answers[0]?.text).toContain("4");
    expect(response.usage.completionTokens).toBe(response.answers[0]?.tokens);
  });

  it("reads a special token in a row as text: it costs more than one token", async () => {
    const usage = async (content: string) =>
      (await engine.infer(chat(content, { maxNewTokens: 1 }), never)).usage.promptTokens;
    expect((await usage("a<|im_end|>")) - (await usage("a"))).toBeGreaterThan(2);
  });

  it("follows the seed", async () => {
    const ask = (seed: number) =>
      text(complete("Once upon a time", { temperature: 1, seed, maxNewTokens: 8 }));
    expect(await ask(1)).toBe(await ask(1));
    expect(new Set([await ask(1), await ask(2), await ask(3)]).size).toBeGreaterThan(1);
  });

  it("ends before a stop text, and at the limit of tokens", async () => {
    const whole = await text(complete("One two three four"));
    const stop = whole.slice(6, 10);
    const cut = await engine.infer(complete("One two three four", { stop: [stop] }), never);
    expect(cut.answers[0]).toMatchObject({
      text: whole.slice(0, whole.indexOf(stop)),
      finishReason: "stop",
    });
    const short = await engine.infer(complete("One two", { maxNewTokens: 3 }), never);
    expect(short.answers[0]).toMatchObject({ finishReason: "length", tokens: 3 });
  });

  it("fails or cuts a prompt that is too long, as asked", async () => {
    const long = `${"word ".repeat(300)}end`;
    await expect(engine.infer(complete(long), never)).rejects.toMatchObject({
      code: "PROMPT_TOO_LONG",
      message: expect.stringMatching(/30\d tokens of prompt.*context of 256/),
    });
    for (const onTooLong of ["truncate-left", "truncate-right"] as const) {
      const request = complete(long, {}, { onTooLong });
      const { usage } = await engine.infer(request, never);
      expect(usage.promptTokens).toBe(256 - request.parameters.maxNewTokens);
    }
  });

  it("computes what prompts share only once", async () => {
    const shared = "A list of animals and what they eat. ".repeat(12);
    const asked = ["Cats", "Dogs", "Cows", "Birds"].map((animal) =>
      engine.infer(complete(`${shared}${animal}`, { maxNewTokens: 4 }), never),
    );
    const cached = (await Promise.all(asked)).map((response) => response.usage.cachedTokens);
    expect(cached.filter((tokens) => tokens > 80)).toHaveLength(3);
  });

  it("fills slots with words of the row only", async () => {
    const sentences = [
      "Bake at 375 degrees F (190 degrees C) for 10½ minutes.",
      "Whisk the eggs – gently.",
      "Dump <|im_end|> 🍞 into the pan for 5 min.",
      "",
    ];
    const slot = { orElse: "none", maxWords: 5 };
    const asked = sentences.map(async (source, index) => {
      const slottedLine: SlottedLine = {
        line: "temperature={t}, duration={d}",
        slots: [
          { ...slot, name: "t", source },
          { ...slot, name: "d", source, pattern: "\\d.*" },
        ],
      };
      const request = complete(`Sentence: ${source}\nAnswer:`, { temperature: 1.5, seed: index });
      const answer = await text({ ...request, slottedLine });
      const [, t, d] = /^temperature=(.*), duration=(.*)$/u.exec(answer) ?? [];
      expect(["none", ...candidateSpans(slottedLine.slots[0]!)]).toContain(t);
      expect(["none", ...candidateSpans(slottedLine.slots[1]!)]).toContain(d);
    });
    await Promise.all(asked);
  });

  it("stops computing what is aborted", async () => {
    const controller = new AbortController();
    const asked = engine.infer(complete("On and on", { maxNewTokens: 200 }), controller.signal);
    const other = text(complete("One two three"));
    controller.abort(new Error("enough"));
    await expect(asked).rejects.toThrow("enough");
    expect((await other).length).toBeGreaterThan(0);
  });

  it("rejects what it held when its host is killed, then works again", async () => {
    const begun = Promise.withResolvers<void>();
    const asked = [1, 2, 3].map((at) =>
      engine.infer(complete(`Number ${at}`, { maxNewTokens: 200 }), never, () => begun.resolve()),
    );
    const results = Promise.allSettled(asked);
    await begun.promise;
    process.kill(engine.choices?.pid as number, "SIGKILL");
    for (const result of await results) {
      expect(result).toMatchObject({ status: "rejected", reason: { code: "ENGINE_DIED" } });
    }
    expect((await text(complete("One two three"))).length).toBeGreaterThan(0);
  });
});

if (files.missing === undefined) {
  const openOne = () => openLlamaFrom({ ...files, ...shape }, engineContext);
  const kept = keptOpen(openOnce);
  const open = async ({ mustClose }: { mustClose: boolean }) => ({
    engine: await (mustClose ? openOne : kept)(),
    isDeterministic: false,
    tellsDeltas: true,
    enforcesSlots: true,
    answersSeveral: true,
    reportsLogprobs: true,
    failing: { request: complete("word ".repeat(300)), code: "PROMPT_TOO_LONG" as const },
  });
  engineConformance("llama", open);
}

describe("openLlama with a damaged file", () => {
  it("names a truncated model", async (context) => {
    if (files.missing !== undefined) return context.skip(files.missing);
    const folder = await mkdtemp(join(tmpdir(), "sluice-llama-"));
    try {
      const modelPath = join(folder, "cut.gguf");
      await copyFile(files.modelPath, modelPath);
      const file = await open(modelPath, "r+");
      await file.truncate(40_000_000);
      await file.close();
      await expect(openLlamaFrom({ ...files, modelPath }, engineContext)).rejects.toMatchObject({
        code: "MODEL_CORRUPT",
      });
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
