import { expect, it } from "vitest";
import { modelOptions } from "../../src/engines/model-options.ts";
import { placedWorkers } from "../../src/serve/placed-workers.ts";
import { engineContext } from "../engines/engine-context.ts";

it.each([
  ["transformers", { task: "feature-extraction", name: "./nowhere", device: "cuda" }],
  ["vllm", { name: "./nowhere" }],
  ["predictor", { module: "/nowhere.mjs", devices: "all" }],
])("one copy of %s %j has a GPU of its own", async (engine, options) => {
  const lease = async () => {
    throw new Error("leased");
  };
  const model = modelOptions.parse({ engine, ...options });
  const workers = placedWorkers({ model }, { cores: 2, devices: { lease } }, engineContext());
  await expect(workers.scale(1)).rejects.toThrow("leased");
});

it.each([
  ["predictor", { module: "/nowhere.mjs", devices: [1] }],
  // These spread one copy over all that they see.
  ["llama", { name: "./nowhere.gguf" }],
  ["llama-server", { name: "./nowhere.gguf" }],
])("one copy of %s %j sees all GPUs, or those that it names", async (engine, options) => {
  const lease = async () => {
    throw new Error("leased");
  };
  const model = modelOptions.parse({ engine, ...options });
  const workers = placedWorkers({ model }, { cores: 2, devices: { lease } }, engineContext());
  await expect(workers.scale(1)).rejects.not.toThrow("leased");
});

it("a copy that cannot be loaded gives its GPUs back", async () => {
  let [leased, released] = [0, 0];
  const lease = async () => {
    leased++;
    return { environment: { CUDA_VISIBLE_DEVICES: "1" }, release: () => void released++ };
  };
  const model = modelOptions.parse({ engine: "predictor", module: "/nowhere.mjs", devices: "all" });
  const workers = placedWorkers({ model }, { cores: 2, devices: { lease } }, engineContext());
  await expect(workers.scale(1)).rejects.toThrow();
  expect([leased, released]).toEqual([1, 1]);
});
