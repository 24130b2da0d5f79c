import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { openLlama, openLlamaFrom } from "../../src/engines/llama/engine.ts";
import { sha256Hex } from "../../src/foundation/hashing.ts";
import { greedyParameters, type InferenceRequest } from "../../src/foundation/inference.ts";
import { isLong } from "../long.ts";
import { engineContext, findLlamaFiles } from "./llama-files.ts";
import { loraAdapter, queriesShape } from "./lora-adapter.ts";

const files = await findLlamaFiles();
const never = new AbortController().signal;
const prompts = ["The capital of France is", "Once upon a time", "Water boils at", "My dog"];
const requestOf = (prompt: string, embed = false): InferenceRequest => ({
  ...{ prompt, embed },
  parameters: { ...greedyParameters, maxNewTokens: 12, seed: 0 },
});

describe("a LoRA adapter", () => {
  beforeEach((context) => context.skip(files.missing !== undefined, files.missing));

  let folder: string;
  let plain: string[];
  const shape = { sequences: 4, contextTokens: 256, threads: 1 };
  const opened: Engine[] = [];

  const open = async (lora: { path: string; scale: number }[] = []) => {
    const { modelPath, modulePath } = files as { modelPath: string; modulePath: string };
    const engine = await openLlamaFrom({ modelPath, modulePath, ...shape, lora }, engineContext);
    opened.push(engine);
    return engine;
  };
  const answersOf = async (engine: Engine) => {
    const asked = prompts.map((prompt) => engine.infer(requestOf(prompt), never));
    return (await Promise.all(asked)).map(({ answers }) => answers[0]!.text);
  };
  const vectorOf = async (engine: Engine) =>
    (await engine.infer(requestOf(prompts[0]!, true), never)).answers[0]!.value;
  const write = async (name: string, bytes: Uint8Array) => {
    const path = join(folder, name);
    await writeFile(path, bytes);
    return path;
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-lora-"));
    if (files.missing === undefined) plain = await answersOf(await open());
  });
  afterAll(async () => {
    for (const engine of opened) await engine.close();
    await rm(folder, { recursive: true });
  });

  it("changes answers and vectors, and by a scale of 0 neither", async () => {
    const path = await write("some.gguf", loraAdapter(2));
    const adapted = await open([{ path, scale: 1 }]);
    const off = await open([{ path, scale: 0 }]);
    expect(await answersOf(adapted)).not.toEqual(plain);
    expect(await answersOf(off)).toEqual(plain);
    const vector = await vectorOf(opened[0]!);
    expect(await vectorOf(adapted)).not.toEqual(vector);
    expect(await vectorOf(off)).toEqual(vector);
  });

  it("that adds nothing changes no answer, and is named with its digest", async () => {
    const bytes = loraAdapter(0);
    const path = await write("named.gguf", bytes);
    const { modelPath } = files as { modelPath: string };
    const engine = await openLlama(
      {
        ...{ engine: "llama", name: modelPath, ...shape },
        lora: [{ path, scale: 0.5 }],
      },
      engineContext,
    );
    opened.push(engine);
    expect(engine.choices?.weights).toMatchObject({
      sha256: sha256Hex(await readFile(modelPath)),
      lora: [{ file: "named.gguf", sha256: sha256Hex(bytes), scale: 0.5 }],
    });
    expect(await answersOf(engine)).toEqual(plain);
  });

  const narrow = { ...queriesShape, inputs: 512 };
  const broken: [problem: string, content: () => Uint8Array, says: RegExp][] = [
    ["is no GGUF", () => Buffer.from("no adapter at all"), /failed/i],
    ["was made for another model", () => loraAdapter(1, narrow), /incorrect shape/],
  ];
  /** The library tells them likewise, after the model was loaded for each. */
  const brokenInLong: typeof broken = [
    ["is cut off", () => loraAdapter(1).subarray(0, 100_000), /bounds/],
    ["has more layers", () => loraAdapter(1, { ...queriesShape, layers: 31 }), /not exist/],
  ];
  for (const [problem, content, says] of [...broken, ...(isLong ? brokenInLong : [])]) {
    it(`that ${problem} is refused by name`, async () => {
      const path = await write("broken.gguf", content());
      await expect(open([{ path, scale: 1 }])).rejects.toMatchObject({
        code: "ADAPTER_UNUSABLE",
        message: expect.stringMatching(new RegExp(`broken\\.gguf: .*${says.source}`)),
        hint: expect.stringContaining("model.lora"),
      });
    });
  }

  it("that is not there is refused by name, by both doors", async () => {
    const lora = [{ path: join(folder, "none.gguf"), scale: 1 }];
    const refusal = { code: "ADAPTER_UNUSABLE", message: expect.stringContaining("none.gguf") };
    await expect(open(lora)).rejects.toMatchObject(refusal);
    const { modelPath: name } = files as { modelPath: string };
    const asked = openLlama({ engine: "llama", name, lora }, engineContext);
    await expect(asked).rejects.toMatchObject(refusal);
  });
});
