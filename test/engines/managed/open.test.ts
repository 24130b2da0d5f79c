import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../../src/engines/engine.ts";
import { openLlamaServer, openVllm } from "../../../src/engines/managed/open.ts";
import { llamaServerModel, vllmModel } from "../../../src/engines/managed/options.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import { engineContext } from "../engine-context.ts";
import { keptLog } from "../openai/openai-engine.ts";
import { ggufFile, pair } from "../tiny-gguf.ts";
import { request, StandIn } from "./managed-engines.ts";

const never = new AbortController().signal;
let standIn: StandIn;
let engine: Engine | undefined;

beforeEach(() => {
  standIn = new StandIn();
});

afterEach(async () => {
  await engine?.close();
  standIn.remove();
});

const contextOf = (environment: Record<string, string> = {}) =>
  engineContext({ environment, homeDirectory: standIn.folder });

/** A model of which a token of context takes 2 layers × 4 heads × (16 + 16) × 2 bytes. */
const tinyModel = ggufFile(
  [
    pair.text("general.architecture", "llama"),
    pair.uint32("llama.block_count", 2),
    pair.uint32("llama.embedding_length", 64),
    pair.uint32("llama.attention.head_count", 4),
  ],
  [],
);
const tokenBytes = 2 * 4 * (16 + 16) * 2;

async function openLlama(
  options: Record<string, unknown>,
  args: (string | number)[] = [],
  { freeBytes = 2 ** 40, model = tinyModel, logger = silentLogger, environment = {} } = {},
) {
  const name = join(standIn.folder, "tiny.gguf");
  await writeFile(name, model);
  const { command, args: own } = standIn.model();
  const parsed = llamaServerModel.parse({
    ...{ engine: "llama-server", name, command, args: [...own, ...args] },
    ...options,
  });
  engine = await openLlamaServer(parsed, { ...contextOf(environment), logger }, freeBytes);
  return { engine, name, args: standIn.starts[0]!.args };
}

async function openModel(options: Record<string, unknown>, environment = {}) {
  const parsed = vllmModel.parse(standIn.model({ shows: [] }, options));
  engine = await openVllm(parsed, contextOf(environment));
  return { engine, args: standIn.starts[0]!.args };
}

/** The value behind a flag. */
const after = (args: readonly string[], flag: string) => args[args.lastIndexOf(flag) + 1];

describe("openLlamaServer", () => {
  it("gives the model's file and a place for each request", async () => {
    const { name, args, engine } = await openLlama({ sequences: 6, contextTokens: 100 });
    expect(after(args, "-m")).toBe(name);
    expect(after(args, "-np")).toBe("6");
    expect(after(args, "-c")).toBe("600");
    expect(args).toEqual(expect.arrayContaining(["--top-k", "--min-p", "--cache-reuse"]));
    expect(args).not.toContain("-ngl");
    expect((await engine.infer(request("hello"), never)).answers[0]?.text).toBe("re: hello");
  });

  it("holds as many requests as the server has slots, and a quarter more", async () => {
    const { engine } = await openLlama({});
    expect(engine.capacity).toBe(8);
    expect(engine.name).toBe("llama-server");
    expect(engine.choices).toMatchObject({
      weights: { file: "tiny.gguf", sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
      ...{ version: "b7", slots: 6, contextTokens: 256 },
    });
  });

  it("leaves what the job gives as it is", async () => {
    const { args } = await openLlama({ threads: 3, gpuLayers: 7 }, ["--parallel", 2, "-t", 1]);
    expect(args).not.toContain("-np");
    expect(after(args, "-ngl")).toBe("7");
    expect(args.filter((arg) => arg === "-t")).toHaveLength(1);
    expect(after(args, "-t")).toBe("1");
    expect(after(args, "-c")).toBe(String(2 * 2048));
  });

  it("has a context that takes half of the free memory at most, and says so", async () => {
    const { lines, logger } = keptLog();
    const freeBytes = 2 * 5.5 * 2048 * tokenBytes;
    const { args } = await openLlama({ gpuLayers: 0 }, [], { freeBytes, logger });
    expect([after(args, "-np"), after(args, "-c")]).toEqual(["5", String(5 * 2048)]);
    expect(lines.map(({ message }) => message)).toEqual([
      expect.stringMatching(/5 requests at once in place of 32, .*model\.sequences/),
    ]);
  });

  it.each([
    ["the job says how many", { gpuLayers: 0, sequences: 32 }, [], {}],
    ["the server is told its context", { gpuLayers: 0 }, ["-c", 1024], {}],
    ["layers are on a GPU", { gpuLayers: 9 }, [], {}],
    ["there are GPUs", {}, [], { environment: { SLUICE_DEVICE: "cuda:0" } }],
    ["the model says nothing", { gpuLayers: 0 }, [], { model: Buffer.from("GGUF".padEnd(60)) }],
  ])("has 32 places whatever memory is free where %s", async (_why, options, more, given) => {
    const { lines, logger } = keptLog();
    const { args } = await openLlama(options, more, { freeBytes: 1, logger, ...given });
    expect(after(args, "-np")).toBe("32");
    expect(lines).toEqual([]);
  });
});

describe("openVllm", () => {
  it("serves the model by its name, with as much as the job says", async () => {
    const { args, engine } = await openModel({ sequences: 16, contextTokens: 4096 });
    expect(args.slice(0, 2)).toEqual(["serve", "owner/model"]);
    expect(after(args, "--max-num-seqs")).toBe("16");
    expect(after(args, "--max-model-len")).toBe("4096");
    expect(after(args, "--host")).toBe("127.0.0.1");
    expect(engine.choices).toMatchObject({ slots: 16 });
  });

  it("asks the server itself, whatever proxy and key the environment has", async () => {
    const { engine } = await openModel(
      {},
      { HTTP_PROXY: "http://127.0.0.1:9", OPENAI_API_KEY: "sk-someone-elses" },
    );
    expect((await engine.infer(request("hello"), never)).answers[0]?.text).toBe("re: hello");
  });

  it("shows the server the job's GPUs, unless its worker was given some", async () => {
    const variable = { shows: ["CUDA_VISIBLE_DEVICES"], failedStarts: [0, 1] };
    const parsed = vllmModel.parse(standIn.model(variable, { devices: [2, 3] }));
    await expect(openVllm(parsed, contextOf())).rejects.toThrow(/CUDA_VISIBLE_DEVICES=2,3/);
    const given = { CUDA_VISIBLE_DEVICES: "5", SLUICE_DEVICE: "cuda:5" };
    await expect(openVllm(parsed, contextOf(given))).rejects.toThrow(/CUDA_VISIBLE_DEVICES=5/);
    engine = undefined;
  });
});
