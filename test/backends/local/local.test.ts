import { describe, expect, it } from "vitest";
import type { DeviceGroups } from "../../../src/backends/local/device-pool.ts";
import { localWorkers } from "../../../src/backends/local/local.ts";
import { workerEnvironment } from "../../../src/backends/local/worker-process.ts";
import { type JobInput, jobSchema } from "../../../src/run/job/schema.ts";

const machine = { cores: 8, memoryBytes: 64 * 1024 ** 3 };

function workersFor(
  workers: JobInput["workers"],
  rows = 10,
  model: JobInput["model"] = { engine: "fake" },
  devices?: DeviceGroups,
) {
  const job = jobSchema.parse({ input: "/in.jsonl", model, prompt: "{{ text }}", workers });
  return localWorkers(job, rows, machine, devices);
}

describe("localWorkers", () => {
  it("starts one worker for each 100,000 rows, up to the cores", () => {
    expect([10, 100_001, 10_000_000].map((rows) => workersFor({}, rows).workers)).toEqual([
      1, 2, 8,
    ]);
  });

  it("starts one worker for a model that takes the whole processor", () => {
    expect(workersFor({}, 10_000_000, { engine: "llama", name: "/m.gguf" }).workers).toBe(1);
  });

  it("starts as many as are asked for, also more than there are cores", () => {
    expect(workersFor({ max: 20 })).toEqual({ workers: 20, notices: [], cores: 1 });
  });

  it("caps them by cores and memory, and says so", () => {
    expect(workersFor({ max: 3, cpu: 3 })).toMatchObject({
      workers: 2,
      notices: ["workers.cpu: 3 allows 2 of 3 workers on this machine"],
    });
    const { workers, notices } = workersFor({ max: 8, cpu: 2, memory: "40G" });
    expect(workers).toBe(1);
    expect(notices).toHaveLength(2);
    expect(workersFor({ max: 2, cpu: 4, memory: "32G" })).toMatchObject({
      workers: 2,
      notices: [],
    });
  });

  it("names the flags of a fleet, and counts its programs", () => {
    const program = { engine: "program" as const, name: "f", instances: 2, cpu: 1.5 };
    const noticesOf = (asked: object, rows: number) => workersFor(asked, rows, program).notices;
    expect(noticesOf({ max: 5, cpu: 3 }, 100)).toEqual([
      "--cpu allows 4 of 10 programs side by side on this machine",
    ]);
    expect(noticesOf({ max: 5, cpu: 3 }, 4)).toEqual([]);
    expect(noticesOf({ max: 5, cpu: 30 }, 1)).toEqual([
      "this machine has less than a program books (--cpu 30); one runs at a time",
    ]);
  });

  it("divides the memory that is free, where that is known", () => {
    const job = jobSchema.parse({
      ...{ input: "/in.jsonl", model: { engine: "fake" }, prompt: "p", workers: { max: 4 } },
    });
    const free = localWorkers(job, 10, { ...machine, freeMemoryBytes: 8e9 });
    expect(free.freeMemoryBytes).toBe(2e9);
  });

  it("starts one where the machine has less than one worker asks for, and says so", () => {
    const { workers, notices } = workersFor({ max: 3, cpu: 24, memory: "120G" });
    expect(workers).toBe(1);
    expect(notices[0]).toContain("less than one worker asks for (workers.cpu: 24)");
  });

  it("starts one for each group of GPUs, fewer where that is asked for, and never more", () => {
    const gpu = { id: "0", uuid: "GPU-1", name: "NVIDIA L40S", memory: "46068 MiB", selector: "0" };
    const devices = { groups: [[gpu], [gpu], [gpu]], notices: ["of the devices"] };
    const llama = { engine: "llama" as const, name: "/m.gguf" };
    const workers = [{}, { max: 2 }, { max: 5 }, { cpu: 4 }];
    expect(workers.map((asked) => workersFor(asked, 10, llama, devices))).toEqual([
      { workers: 3, notices: ["of the devices"], cores: 2 },
      { workers: 2, notices: ["of the devices"], cores: 4 },
      {
        workers: 3,
        notices: ["of the devices", "workers.max: 5: this machine has GPUs for 3"],
        cores: 2,
      },
      {
        workers: 2,
        notices: ["of the devices", "workers.cpu: 4 allows 2 of 3 workers on this machine"],
        cores: 4,
      },
    ]);
  });
});

describe("workerEnvironment", () => {
  it("adds the job's variables to the caller's, whose value a bare name keeps", () => {
    const environment = workerEnvironment(
      { PATH: "/bin", TOKEN: "mine", A: "1" },
      { A: "2", B: "3", TOKEN: null },
    );
    expect(environment).toEqual({ PATH: "/bin", TOKEN: "mine", A: "2", B: "3" });
  });

  it("fills in what runs keep by name, and says which variable is not set", () => {
    const reference = "$" + "{DB_PASSWORD}";
    const kept = { DB_PASSWORD: reference, DB: `db:${reference}@h` };
    const caller = { DB_PASSWORD: "pw" };
    expect(workerEnvironment(caller, kept)).toEqual({ DB_PASSWORD: "pw", DB: "db:pw@h" });
    expect(() => workerEnvironment({}, kept)).toThrow(
      expect.objectContaining({ code: "ENV_MISSING", place: { field: "env.DB_PASSWORD" } }),
    );
  });
});
