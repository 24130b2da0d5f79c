import { delimiter } from "node:path";
import { expect, it } from "vitest";
import { DevicePool } from "../../src/backends/local/device-pool.ts";
import { modelOptions } from "../../src/engines/model-options.ts";
import { placedWorkers } from "../../src/serve/placed-workers.ts";
import { engineContext } from "../engines/engine-context.ts";
import { standInDriver, threeGpus } from "../engines/stand-in-driver.ts";

it.each([
  ["transformers", { task: "feature-extraction", name: "./nowhere", device: "cuda" }, false],
  ["vllm", { name: "./nowhere" }, false],
  ["predictor", { module: "/nowhere.mjs", devices: "all" }, false],
  // These spread one copy over all that there are, or all that they name.
  ["llama", { name: "./nowhere.gguf" }, true],
  ["llama", { name: "./nowhere.gguf", devices: [1, 2] }, true],
  ["llama-server", { name: "./nowhere.gguf" }, true],
])("one copy of %s %j has GPUs, all: %s", async (engine, options, isAll) => {
  const lease = async ({ takesAll }: { takesAll?: boolean }) => {
    throw new Error(`leased, all: ${takesAll}`);
  };
  const model = modelOptions.parse({ engine, ...options });
  const workers = placedWorkers({ model }, { cores: 2, devices: { lease } }, engineContext());
  await expect(workers.scale(1)).rejects.toThrow(`leased, all: ${isAll}`);
});

it("one copy of a predictor sees the GPUs that it names", async () => {
  const lease = async () => {
    throw new Error("leased");
  };
  const model = modelOptions.parse({ engine: "predictor", module: "/nowhere.mjs", devices: [1] });
  const workers = placedWorkers({ model }, { cores: 2, devices: { lease } }, engineContext());
  await expect(workers.scale(1)).rejects.not.toThrow("leased");
});

it("a copy that cannot be loaded gives its GPUs back", async () => {
  let [leased, released] = [0, 0];
  const lease = async () => {
    leased++;
    const environment = { CUDA_VISIBLE_DEVICES: "1" };
    return { devices: [], environment, notices: [], release: () => void released++ };
  };
  const model = modelOptions.parse({ engine: "predictor", module: "/nowhere.mjs", devices: "all" });
  const workers = placedWorkers({ model }, { cores: 2, devices: { lease } }, engineContext());
  await expect(workers.scale(1)).rejects.toThrow();
  expect([leased, released]).toEqual([1, 1]);
});

it("the log says why a model gets no GPU", async () => {
  const lines: string[] = [];
  const logger = { log: (_: string, line: string) => void lines.push(line) };
  const PATH = `${standInDriver(threeGpus, 9)}${delimiter}${process.env.PATH}`;
  const devices = new DevicePool({ PATH });
  const model = modelOptions.parse({ engine: "llama", name: "./nowhere.gguf", devices: [1] });
  const workers = placedWorkers({ model }, { cores: 2, devices }, engineContext({ logger }));
  await expect(workers.scale(1)).rejects.toThrow();
  expect(lines).toEqual([
    expect.stringMatching(/^GPUs are not given out \(nvidia-smi: /),
    "model.devices: no GPU is seen on this machine",
  ]);
});
