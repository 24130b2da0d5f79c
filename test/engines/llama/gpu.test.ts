import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { openLlamaFrom } from "../../../src/engines/llama/engine.ts";
import { type LoadOptions, loadLlama } from "../../../src/engines/llama/loaded-llama.ts";
import { engineContext } from "../engine-context.ts";

// A GPU is not at hand: a library of a few lines, and a host that ends as the real one did on an
// NVIDIA H200, take its place.

interface Calls {
  gpu?: unknown;
  decoded: number;
  /** Tokens of the last batch. */
  tokens?: number;
  disposed: string[];
}

/** Loads with a library that computes on `gpu`; `calls` tells what was asked of it. */
async function load(gpu: string | false, changes: Partial<LoadOptions> = {}, broken = "") {
  const folder = mkdtempSync(join(tmpdir(), "sluice-gpu-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const modulePath = join(folder, "library.mjs");
  writeFileSync(
    modulePath,
    `export const calls = { decoded: 0, disposed: [] };
export class InsufficientMemoryError extends Error {}
const disposing = (name) => async () => void calls.disposed.push(name);
const native = {
  initBatch(tokens) { calls.tokens = tokens; },
  removeTokenCellsFromSequence: () => true,
  addToBatch: () => [0],
  async decodeBatch() { calls.decoded++; ${broken} },
  disposeSequence(sequence) { calls.disposed.push("sequence " + sequence); },
};
export async function getLlama({ gpu, logger }) {
  calls.gpu = gpu;
  const used = gpu === false ? false : ${JSON.stringify(gpu)};
  return {
    gpu: used,
    cpuMathCores: 1,
    async loadModel({ gpuLayers }) {
      logger("warn", "slow");
      logger("error", "CUDA error: no kernel image");
      return {
        gpuLayers: used === false ? 0 : (gpuLayers ?? 31),
        tokens: { bos: 1 },
        fileInsights: {},
        createContext: async () => ({ _ctx: native, dispose: disposing("context") }),
        dispose: disposing("model"),
      };
    },
    dispose: disposing("library"),
  };
}
`,
  );
  const shape = { sequences: 2, contextTokens: 64, batchTokens: 64, threads: 1 };
  const modelPath = join(folder, "m.gguf");
  const { calls } = (await import(modulePath)) as { calls: Calls };
  const options = {
    modulePath,
    modelPath,
    adapters: [],
    isExact: true,
    shape: () => shape,
    ...changes,
  };
  return { calls, opening: loadLlama(options) };
}

describe("loadLlama", () => {
  it("computes a token on a GPU before requests come, and forgets it", async () => {
    const { calls, opening } = await load("cuda");
    expect((await opening).gpu).toBe("cuda");
    expect(calls).toMatchObject({ gpu: "auto", decoded: 1, disposed: ["sequence 0"] });
  });

  it("says what helps where the GPU computes nothing", async () => {
    const { calls, opening } = await load("vulkan", {}, "throw new Error('device lost')");
    await expect(opening).rejects.toMatchObject({
      code: "ENGINE_START_FAILED",
      message: expect.stringContaining("the vulkan GPU does not compute: Error: device lost"),
      hint: expect.stringContaining("model.gpuLayers 0"),
    });
    expect(calls.disposed).toEqual(["context", "model", "library"]);
  });

  it("loads no library for GPUs for a model without layers there, and tries nothing", async () => {
    const { calls, opening } = await load("cuda", { gpuLayers: 0 });
    expect((await opening).gpu).toBe(false);
    expect(calls).toMatchObject({ gpu: false, decoded: 0 });
  });

  it("computes a token that is alone as if it had a neighbour, or faster", async () => {
    const item = { sequence: 0, start: 4, tokens: [1], wantsOutput: true };
    for (const [isExact, tokens] of [[true, 2] as const, [false, 1] as const]) {
      const { calls, opening } = await load(false, { isExact });
      await (await opening).decode([item]);
      expect(calls.tokens).toBe(tokens);
    }
  });

  it("hands errors on as the library writes them", async () => {
    const lines: string[] = [];
    const { opening } = await load(false, { onErrorLine: (line) => lines.push(line) });
    await opening;
    expect(lines).toEqual(["CUDA error: no kernel image"]);
  });
});

describe("openLlamaFrom", () => {
  const frame = "/x/libggml-cuda.so(+0x2bad56)[0x7f1ddb0bad56]";

  /** Opens with a host that writes these lines and aborts. */
  const open = (...lines: string[]) => {
    const script = [...lines.map((line) => `echo '${line}' >&2`), "kill -ABRT $$"].join("\n");
    const context = engineContext({ hostCommand: ["/bin/sh", "-c", script] });
    return openLlamaFrom({ modelPath: "/x/m.gguf", modulePath: "/x/index.js" }, context);
  };

  it("names why a GPU ended the host, without its stack, and what helps", async () => {
    const reason = "CUDA error: the provided PTX was compiled with an unsupported toolchain.";
    const place = "/x/ggml-cuda.cu:108: CUDA error";
    const opening = open(place, frame, reason, ...Array.from({ length: 20 }, () => frame));
    const ending = `signal SIGABRT, after writing\n  ${place}\n  ${reason}`;
    await expect(opening).rejects.toMatchObject({
      code: "ENGINE_START_FAILED",
      message: `the engine could not be started: ${ending}`,
      hint: expect.stringContaining("--hardware vulkan"),
    });
  });

  it("tells a full GPU from one without kernels", async () => {
    await expect(open("CUDA error: out of memory", frame)).rejects.toMatchObject({
      hint: expect.stringContaining("free the GPU's memory"),
    });
  });

  it("leaves other ends as they are", async () => {
    await expect(open("no GPU at all")).rejects.not.toMatchObject({
      hint: expect.stringContaining("vulkan"),
    });
  });
});
