import { describe, expect, it } from "vitest";
import { visibleDevices } from "../../../src/engines/llama/engine.ts";

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
