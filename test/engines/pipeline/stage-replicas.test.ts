import { describe, expect, it } from "vitest";
import { stageReplicas } from "../../../src/engines/pipeline/stage-replicas.ts";
import { pipelineOptions } from "./stage-options.ts";

const stage = (changes: object) => ({ kind: "mapBatches", module: "/m.ts", ...changes });

function replicasOf(stages: object[], resources: object) {
  return stageReplicas(pipelineOptions(stages.map(stage), { resources }));
}

describe("stageReplicas", () => {
  it("starts as many as the declared CPUs hold: three of five on sixteen", () => {
    expect(replicasOf([{ numCpus: 5 }], { cpus: 16 })).toEqual({ replicas: [3], notices: [] });
  });

  it("runs a larger concurrency with what fits, and says so", () => {
    const { replicas, notices } = replicasOf([{ numCpus: 5, concurrency: 8, name: "embed" }], {
      cpus: 16,
    });
    expect(replicas).toEqual([3]);
    expect(notices).toEqual([
      "stage 1 mapBatches embed: concurrency 8 runs with 3 replicas: each takes 5 of 16 CPUs",
    ]);
  });

  it("starts no more than memory holds", () => {
    const { replicas, notices } = replicasOf([{ memoryBytes: 4e9, concurrency: 4 }], {
      memoryBytes: 10e9,
    });
    expect(replicas).toEqual([2]);
    expect(notices[0]).toContain("each takes 4000000000 of 10000000000 bytes of memory");
  });

  it("has one replica where nothing is said, and concurrency where nothing bounds it", () => {
    const { replicas } = replicasOf([{}, { concurrency: 20 }, { numGpus: 1 }], { cpus: 2 });
    expect(replicas).toEqual([1, 20, 1]);
  });

  it("divides what there is among stages in turn", () => {
    expect(replicasOf([{ numCpus: 2 }, { numCpus: 3 }], { cpus: 12 }).replicas).toEqual([3, 2]);
    expect(replicasOf([{ numCpus: 0.1 }], { cpus: 1 }).replicas).toEqual([10]);
  });

  it("starts one of each in any case, and says where that is too much", () => {
    const { replicas, notices } = replicasOf([{ numCpus: 5 }, { numCpus: 5 }], { cpus: 8 });
    expect(replicas).toEqual([1, 1]);
    expect(notices).toEqual([
      "one replica of each stage takes 10 CPUs, and there are 8: they run all the same",
    ]);
  });

  it("gives stages of rows no replicas", () => {
    const options = pipelineOptions([{ kind: "select", columns: ["id"] }]);
    expect(stageReplicas(options).replicas).toEqual([1]);
  });
});
