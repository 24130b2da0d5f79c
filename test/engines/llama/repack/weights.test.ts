import { copyFile, readdir, readFile, stat, truncate, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Engine } from "../../../../src/engines/engine.ts";
import {
  type ChooseOptions,
  chooseWeights,
  machineName,
  ownWeights,
} from "../../../../src/engines/llama/repack/weights.ts";
import { systemClock } from "../../../../src/foundation/clock.ts";
import { sha256Hex } from "../../../../src/foundation/hashing.ts";
import { limits } from "../../../../src/foundation/limits.ts";
import { seededRandom } from "../../../../src/foundation/random.ts";
import { temporaryFolder } from "../../models/context.ts";
import { ggufFile, slowModel, someBytes } from "./tiny-gguf.ts";

const { bytes } = slowModel();
const source = { file: "tiny.gguf", sha256: sha256Hex(bytes) };

/** A model on disk, a cache, and engines that are as fast as told, in milliseconds a request. */
async function workplace({ sourceMs = 2, repackedMs = 1, gpuLayers = 0, content = bytes } = {}) {
  const folder = await temporaryFolder();
  const path = join(folder, "tiny.gguf");
  await writeFile(path, content);
  const opened: string[] = [];
  const logged: string[] = [];
  let nowMs = 0;
  const open = async (file: string): Promise<Engine> => {
    const isRepacked = file.includes("repacked");
    opened.push(isRepacked ? "repacked" : "source");
    const usage = { promptTokens: 10, cachedTokens: 0, completionTokens: 5 };
    return {
      name: file,
      capacity: 16,
      choices: { gpuLayers },
      async infer() {
        nowMs += isRepacked ? repackedMs : sourceMs;
        return { answers: [], usage, seconds: 0 };
      },
      async close() {
        opened.push("closed");
      },
    };
  };
  const homeDirectory = join(folder, "home");
  const context = {
    clock: { ...systemClock, monotonic: () => nowMs },
    random: seededRandom(1),
    logger: { log: (level: string, message: string) => void logged.push(`${level} ${message}`) },
    homeDirectory,
  };
  const choose = (changes: Partial<ChooseOptions> = {}) =>
    chooseWeights({ model: { path }, machine: "here", open, ...changes }, context);
  const directory = join(homeDirectory, "repacked", `${source.sha256}.Q8_0`);
  return { path, homeDirectory, directory, opened, logged, choose };
}

describe("chooseWeights", () => {
  it("repacks and measures once, and names both digests", async () => {
    const { choose, directory, opened } = await workplace();
    const chosen = await choose();
    const path = join(directory, "tiny.repacked-Q8_0.gguf");
    const sha256 = sha256Hex(await readFile(path));
    const weights = { file: "tiny.repacked-Q8_0.gguf", sha256, repackedFrom: source };
    expect(chosen).toEqual({ path, weights });
    expect(opened).toEqual(["source", "repacked", "closed", "closed"]);
    expect(await choose()).toEqual(chosen);
    expect(opened).toHaveLength(4);
    expect(JSON.parse(await readFile(join(directory, "repack.json"), "utf8"))).toEqual({
      repackedFrom: source,
      weights: { file: weights.file, sha256, bytes: (await stat(path)).size },
      measured: {
        here: { device: "cpu", tokensPerSecond: { source: 7500, repacked: 15_000 } },
      },
    });
    expect((await readdir(directory)).sort()).toEqual(["repack.json", "tiny.repacked-Q8_0.gguf"]);
  });

  it.each([
    ["slower", 3],
    ["hardly faster", 1.8],
  ])("stays with weights that are %s when repacked, and keeps that", async (_name, repackedMs) => {
    const { choose, path, directory, opened } = await workplace({ repackedMs });
    expect(await choose()).toEqual({ path, weights: source });
    expect(await choose()).toEqual({ path, weights: source });
    expect(opened.filter((what) => what !== "closed")).toEqual(["source", "repacked"]);
    expect(await readdir(directory)).toEqual(["repack.json"]);
  });

  it("stays with the weights where a GPU holds layers, without repacking any", async () => {
    const { choose, path, directory, opened } = await workplace({ gpuLayers: 3 });
    expect(await choose()).toEqual({ path, weights: source });
    expect(await choose()).toEqual({ path, weights: source });
    expect(opened).toEqual(["source", "closed"]);
    expect(await readdir(directory)).toEqual(["repack.json"]);
  });

  it("measures anew on another machine, and keeps the file while one gains", async () => {
    const { choose, path, directory, opened } = await workplace({ repackedMs: 3 });
    const record = join(directory, "repack.json");
    await choose({ machine: "slow" });
    const known = JSON.parse(await readFile(record, "utf8"));
    known.measured.fast = { device: "cpu", tokensPerSecond: { source: 1, repacked: 2 } };
    await writeFile(record, JSON.stringify(known));
    const repacked = await choose({ machine: "fast" });
    expect(repacked.weights.repackedFrom).toEqual(source);
    expect(await choose({ machine: "other" })).toEqual({ path, weights: source });
    expect(opened.filter((what) => what === "repacked")).toHaveLength(2);
    expect(await choose({ machine: "fast" })).toEqual(repacked);
  });

  it("uses what was repacked from the same bytes under another name", async () => {
    const { choose, path, directory } = await workplace();
    const chosen = await choose();
    const renamed = join(dirname(path), "renamed.gguf");
    await copyFile(path, renamed);
    expect((await choose({ model: { path: renamed } })).path).toBe(chosen.path);
    expect((await choose({ model: { path: renamed }, machine: "other" })).path).toBe(chosen.path);
    expect(await readdir(directory)).toHaveLength(2);
  });

  it("repacks again what is torn, without measuring again", async () => {
    const { choose, opened } = await workplace();
    const chosen = await choose();
    const whole = await readFile(chosen.path);
    await truncate(chosen.path, whole.length - 1);
    expect(await choose()).toEqual(chosen);
    expect(await readFile(chosen.path)).toEqual(whole);
    expect(opened).toHaveLength(4);
  });

  it("starts over from a damaged record and from what a dead process left", async () => {
    const { choose, directory } = await workplace();
    const chosen = await choose();
    await writeFile(join(directory, "repack.json"), '{"weights":');
    await writeFile(`${chosen.path}.dead.part`, "x");
    expect(await choose()).toEqual(chosen);
    expect(await readdir(directory)).toHaveLength(2);
  });

  it("repacks once when two ask at the same time", async () => {
    const { choose, opened } = await workplace();
    const [one, other] = await Promise.all([choose(), choose()]);
    expect(one).toEqual(other);
    expect(one.weights.repackedFrom).toEqual(source);
    expect(opened.filter((what) => what === "repacked")).toHaveLength(1);
  });

  it.each([
    ["disk", { disk: 100, memory: 1e9 }],
    ["memory", { disk: 1e9, memory: 100 }],
  ])("stays with the weights where there is too little %s", async (_name, free) => {
    const { choose, path, homeDirectory, opened, logged } = await workplace();
    const freeBytes = async () => free;
    expect(await choose({ freeBytes })).toEqual({ path, weights: source });
    expect(opened).toEqual([]);
    expect(await readdir(join(homeDirectory, "repacked"))).toEqual([]);
    expect(logged).toEqual(["info too little room to repack the weights"]);
    // It is room that was missing, not a gain: the next call tries again.
    expect((await choose()).weights.repackedFrom).toEqual(source);
  });

  it("stays with the weights where the cache cannot be written", async () => {
    const { choose, path, homeDirectory, logged } = await workplace();
    await writeFile(homeDirectory, "a file");
    expect(await choose()).toEqual({ path, weights: { file: "tiny.gguf" } });
    expect(logged).toEqual([
      expect.stringMatching(/^warn weights are used as they are: .*repacked/),
    ]);
  });

  it("leaves a damaged model to the engine, which names the fault", async () => {
    const { choose, path, opened } = await workplace({ content: bytes.subarray(0, 300) });
    expect(await choose()).toEqual({ path, weights: { file: "tiny.gguf" } });
    expect(opened).toEqual([]);
  });

  it("leaves a model without slow weights, and one that is too large, as they are", async () => {
    const fast = { name: "a", dimensions: [2], type: 0, data: someBytes(8, 1) };
    const { choose, path, homeDirectory, opened, logged } = await workplace({
      content: ggufFile([], [fast]),
    });
    expect(await choose()).toEqual({ path, weights: { file: "tiny.gguf" } });
    await writeFile(path, bytes);
    await truncate(path, limits.maxRepackedModelBytes + 1);
    expect(await choose({ model: { path, sha256: "abc" } })).toEqual({
      path,
      weights: { file: "tiny.gguf", sha256: "abc" },
    });
    expect([opened, logged]).toEqual([[], []]);
    await expect(stat(homeDirectory)).rejects.toThrow("ENOENT");
  });
});

describe("ownWeights", () => {
  it("names the file, and its digest where that is known", () => {
    expect(ownWeights({ path: "/m/a.gguf" })).toEqual({
      path: "/m/a.gguf",
      weights: { file: "a.gguf" },
    });
    expect(ownWeights({ path: "/m/a.gguf", sha256: "abc" }).weights.sha256).toBe("abc");
  });
});

describe("machineName", () => {
  it("differs by native package and by layers on the GPU", () => {
    const names = [
      machineName("/cpu", undefined),
      machineName("/cuda", undefined),
      machineName("/cuda", 0),
    ];
    expect(new Set(names).size).toBe(3);
    expect(names[0]).toBe(machineName("/cpu", undefined));
  });
});
