import { describe, expect, it } from "vitest";
import { unusedGpu, visibleDevices } from "../../../src/engines/llama/engine.ts";
import { llamaModel } from "../../../src/engines/llama/options.ts";

describe("unusedGpu", () => {
  it.each([
    [{ gpu: false, gpuLayers: 0 }, "no library for it loads here"],
    [{ gpu: "cuda", gpuLayers: 0 }, "no layer of the model fits"],
  ])("tells of a GPU beside which the CPU computes: %j", (choices, reason) => {
    expect(unusedGpu(choices, "cuda:0")).toContain(`not on cuda:0: ${reason}`);
  });

  it("has nothing to tell where a GPU computes, or where none was given", () => {
    expect(unusedGpu({ gpu: "vulkan", gpuLayers: 1 }, "cuda:0")).toBeUndefined();
    expect(unusedGpu({ gpu: false, gpuLayers: 0 }, undefined)).toBeUndefined();
  });
});

describe("devices of a job", () => {
  it("may be a single one, and not none", () => {
    const options = { engine: "llama", name: "m", devices: [0] };
    expect(llamaModel.parse(options)).toMatchObject({ devices: [0] });
    expect(llamaModel.parse({ ...options, devices: ["0"] })).toMatchObject({ devices: ["0"] });
    expect(llamaModel.safeParse({ ...options, devices: [""] }).success).toBe(false);
    expect(llamaModel.safeParse({ ...options, devices: [] }).success).toBe(false);
  });
});

describe("visibleDevices", () => {
  it("shows the named devices to every library, the main one first", () => {
    expect(visibleDevices({ devices: [0, "GPU-4a", 3], mainGpu: 2 }, {})).toEqual({
      CUDA_VISIBLE_DEVICES: "3,0,GPU-4a",
      HIP_VISIBLE_DEVICES: "3,0,GPU-4a",
      GGML_VK_VISIBLE_DEVICES: "3,0,GPU-4a",
    });
    expect(visibleDevices({ devices: [1] }, {}).CUDA_VISIBLE_DEVICES).toBe("1");
  });

  it("changes nothing where the job says nothing", () => {
    expect(visibleDevices({}, {})).toEqual({});
  });

  it("leaves a worker the devices that it was given", () => {
    expect(visibleDevices({ devices: [0, 1] }, { SLUICE_DEVICE: "cuda:1" })).toEqual({});
  });

  it.each([{ devices: [0, 1], mainGpu: 2 }, { mainGpu: 0 }])("refuses %j", (options) => {
    expect(() => visibleDevices(options, {})).toThrow("model.mainGpu");
    expect(() => visibleDevices(options, { SLUICE_DEVICE: "cuda:1" })).toThrow("model.mainGpu");
  });
});
