import { describe, expect, it } from "vitest";
import { assignedEnvironment } from "../../src/engines/devices.ts";
import {
  hasEnoughDevices,
  replicaDevices,
  shareAmongReplicas,
  threadsOfReplica,
} from "../../src/engines/replicas.ts";

const shown = (shares: ReturnType<typeof shareAmongReplicas>) =>
  shares.map(({ environment }) => environment.CUDA_VISIBLE_DEVICES);

describe("shareAmongReplicas", () => {
  it("gives each replica GPUs of its own", () => {
    expect(shown(shareAmongReplicas({ replicas: 2, devices: [0, 3] }, {}))).toEqual(["0", "3"]);
    expect(shown(shareAmongReplicas({ devices: [2, 1] }, {}))).toEqual(["2,1"]);
    const four = { replicas: 2, devices: [0, 1, 2, 3] };
    expect(shown(shareAmongReplicas(four, {}))).toEqual(["0,1", "2,3"]);
    expect(shown(shareAmongReplicas({ replicas: 2 }, {}))).toEqual([undefined, undefined]);
  });

  it("divides what the worker was given, whatever the job names", () => {
    const gpu = (id: string) => ({ id, uuid: `GPU-${id}`, name: "", memory: "", selector: id });
    const given = assignedEnvironment([gpu("5"), gpu("6")], {});
    expect(shown(shareAmongReplicas({ replicas: 2, devices: "all" }, given))).toEqual(["5", "6"]);
    expect(shown(shareAmongReplicas({ replicas: 2, devices: [0, 1] }, given))).toEqual(["5", "6"]);
  });

  it("refuses more replicas than GPUs", () => {
    const options = { replicas: 3, devices: [0, 1] };
    expect(() => shareAmongReplicas(options, {})).toThrow("3 replicas need as many GPUs");
    expect(hasEnoughDevices(options)).toBe(false);
    expect(hasEnoughDevices({ replicas: 3 })).toBe(true);
    expect(hasEnoughDevices({ replicas: 3, devices: "all" })).toBe(true);
  });

  it("refuses to compute without GPUs where the job wants all that there are", () => {
    expect(() => shareAmongReplicas({ devices: "all" }, {})).toThrow(
      "model.devices: all, and this machine shows no GPU",
    );
  });

  it("tells libraries their threads, unless somebody did", () => {
    const [share] = shareAmongReplicas({ threads: 3 }, { MKL_NUM_THREADS: "8" });
    expect(share?.environment).toMatchObject({ OMP_NUM_THREADS: "3", RAYON_NUM_THREADS: "3" });
    expect(share?.environment.MKL_NUM_THREADS).toBeUndefined();
  });
});

it("takes no more threads than there are cores", () => {
  expect(threadsOfReplica({ replicas: 3 }, 16)).toBe(5);
  expect(threadsOfReplica({ replicas: 3 }, 2)).toBe(1);
  expect(threadsOfReplica({ threads: 7 }, 2)).toBe(7);
  expect(threadsOfReplica({ replicas: 3 }, undefined)).toBeUndefined();
});

it("wants a GPU for each replica", () => {
  expect(replicaDevices({ replicas: 2, devices: [0, 1] })).toEqual({
    perWorker: 2,
    devices: [0, 1],
  });
  expect(replicaDevices({ devices: "all" })).toEqual({ perWorker: 1 });
  expect(replicaDevices({ replicas: 2 })).toBeUndefined();
});
