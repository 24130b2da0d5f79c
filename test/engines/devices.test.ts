import { type SpawnOptions, spawn } from "node:child_process";
import { describe, expect, it } from "vitest";
import {
  assignedDevices,
  assignedEnvironment,
  deviceUse,
  driverFacts,
  findDevice,
  listDevices,
  mainFirst,
  shownDevices,
} from "../../src/engines/devices.ts";
import type { Spawn } from "../../src/foundation/subprocess.ts";
import { standInDriver, threeGpus } from "./stand-in-driver.ts";

const list = async (lines = threeGpus, exitCode = 0) =>
  listDevices({ PATH: standInDriver(lines, exitCode) });
const devices = threeGpus.map((line) => {
  const [id, uuid, name, memory] = line.split(", ") as [string, string, string, string];
  return { id, uuid, name, memory, selector: id };
});

const shownIds = (shown: string | undefined) =>
  shownDevices(devices, { CUDA_VISIBLE_DEVICES: shown }).map(({ id }) => id);

describe("listDevices", () => {
  it("reads what the driver says of each GPU", async () => {
    expect(await list()).toEqual({ devices });
  });

  it("finds none without the driver's program", async () => {
    expect(await listDevices({ PATH: "/nowhere" })).toEqual({ devices: [] });
  });

  it("leaves out lines that are no GPU", async () => {
    const lines = ["No devices were found", "", threeGpus[1]!];
    expect(await list(lines)).toEqual({ devices: [devices[1]] });
  });

  it("says why the driver could not list them", async () => {
    const said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.";
    expect(await list([said, "more"], 9)).toEqual({ devices: [], problem: `nvidia-smi: ${said}` });
    expect(await list([], 9)).toEqual({ devices: [], problem: "nvidia-smi: code 9" });
  });

  it("does not wait for a driver that hangs", async () => {
    const hanging = ((_command: string, _args: readonly string[], options: SpawnOptions) =>
      spawn("sleep", ["600"], { ...options, env: process.env, timeout: 20 })) as Spawn;
    expect(await listDevices({}, hanging)).toEqual({
      devices: [],
      problem: "nvidia-smi: no reply within 10 s",
    });
  });
});

describe("deviceUse", () => {
  it("reads how much of each GPU is used, and leaves out what one does not tell", async () => {
    const lines = ["0, 1024, 46068, 37", "1, [N/A], [N/A], 100", "No devices were found"];
    expect(await deviceUse({ PATH: standInDriver(threeGpus, 0, [], lines) })).toEqual([
      { id: "0", usedBytes: 2 ** 30, totalBytes: 46_068 * 2 ** 20, utilization: 0.37 },
      { id: "1", usedBytes: undefined, totalBytes: undefined, utilization: 1 },
    ]);
  });

  it("is empty if the driver fails, and undefined without one", async () => {
    expect(await deviceUse({ PATH: standInDriver(threeGpus, 9) })).toEqual([]);
    expect(await deviceUse({ PATH: "/nowhere" })).toBeUndefined();
  });

  it("has no figures where the driver's program cannot be started just now", async () => {
    const busy = ((_command: string, _args: readonly string[], options: SpawnOptions) => {
      const child = spawn("true", [], options);
      queueMicrotask(() => child.emit("error", Object.assign(new Error(), { code: "EAGAIN" })));
      return child;
    }) as Spawn;
    expect(await deviceUse(process.env, busy)).toEqual([]);
  });
});

describe("driverFacts", () => {
  it("reads the driver's version and what each GPU can compute", async () => {
    const PATH = standInDriver(threeGpus, 0, [
      "580.159.04, 8.9",
      "580.159.04, 8.9",
      "580.159.04, 8.0",
    ]);
    expect(await driverFacts({ PATH })).toEqual({
      version: "580.159.04",
      capabilities: ["8.9", "8.9", "8.0"],
    });
  });

  it("knows nothing of a driver that lacks these columns, or without a driver", async () => {
    expect(await driverFacts({ PATH: standInDriver(threeGpus) })).toBeUndefined();
    expect(await driverFacts({ PATH: "/nowhere" })).toBeUndefined();
  });
});

describe("shownDevices", () => {
  it("gives all where nothing is said", () => {
    expect(shownDevices(devices, {})).toEqual(devices);
  });

  it.each([
    ["2,0", ["2", "0"]],
    [" 1 , 2", ["1", "2"]],
    ["GPU-5e1b", ["1"]],
    ["", []],
    ["-1", []],
    ["0,-1,1", ["0"]],
    ["NoDevFiles", []],
    ["MIG-4ae3f1", ["MIG-4ae3f1"]],
  ])("reads CUDA_VISIBLE_DEVICES=%s", (shown, ids) => {
    expect(shownIds(shown)).toEqual(ids);
  });

  it("keeps the entries as they are written", () => {
    const [device] = shownDevices(devices, { CUDA_VISIBLE_DEVICES: "GPU-5e1b" });
    expect(device).toMatchObject({ id: "1", selector: "GPU-5e1b" });
  });
});

describe("findDevice", () => {
  it("goes by number and by the beginning of a UUID, not by what any UUID begins with", () => {
    expect([2, "1", "GPU-89", "GPU-", "8", 3].map((name) => findDevice(devices, name)?.id)).toEqual(
      [...["2", "1", "0"], ...[undefined, undefined, undefined]],
    );
  });
});

describe("assignedEnvironment", () => {
  it("shows some devices to every library, by the numbers of the driver", () => {
    const environment = assignedEnvironment([devices[2]!, devices[0]!], {});
    expect(environment).toEqual({
      SLUICE_DEVICE: "cuda:2,0",
      CUDA_VISIBLE_DEVICES: "2,0",
      HIP_VISIBLE_DEVICES: "2,0",
      GGML_VK_VISIBLE_DEVICES: "2,0",
      CUDA_DEVICE_ORDER: "PCI_BUS_ID",
    });
    expect(assignedDevices(environment)).toBe("cuda:2,0");
  });

  it("keeps to the numbering of who chose before", () => {
    const before = { CUDA_VISIBLE_DEVICES: "GPU-5e1b,0" };
    const [first] = shownDevices(devices, before);
    expect(assignedEnvironment([first!], before)).toEqual({
      SLUICE_DEVICE: "cuda:1",
      CUDA_VISIBLE_DEVICES: "GPU-5e1b",
      HIP_VISIBLE_DEVICES: "1",
      GGML_VK_VISIBLE_DEVICES: "1",
    });
  });
});

describe("mainFirst", () => {
  it("puts one first and keeps the order of the others", () => {
    expect(mainFirst(["a", "b", "c"], 2)).toEqual(["c", "a", "b"]);
    expect(mainFirst(["a", "b"])).toEqual(["a", "b"]);
    expect(() => mainFirst(["a"], 1)).toThrow("model.mainGpu: 1 is none of the 1 devices");
  });
});
