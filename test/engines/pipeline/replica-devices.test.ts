import { describe, expect, it } from "vitest";
import { devicesOfReplica } from "../../../src/engines/pipeline/open-stages.ts";

const replicas = (devices: string[], each: number, count: number) =>
  Array.from({ length: count }, (_, replica) => devicesOfReplica(devices, each, replica).join(","));

describe("devicesOfReplica", () => {
  it("gives whole GPUs in turn", () => {
    expect(replicas(["0", "1", "2", "3"], 2, 2)).toEqual(["0,1", "2,3"]);
  });

  it("lets replicas that take parts of a GPU share it", () => {
    expect(replicas(["0", "1"], 0.5, 4)).toEqual(["0", "0", "1", "1"]);
    expect(replicas(["0"], 0.1, 10)).toEqual(Array(10).fill("0"));
  });

  it("begins with the first again where there are too few", () => {
    expect(replicas(["0"], 1, 2)).toEqual(["0", "0"]);
  });
});
