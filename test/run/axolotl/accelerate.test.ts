import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { readAccelerateConfig, withAccelerate } from "../../../src/run/axolotl/config.ts";
import { type JobInput, jobSchema } from "../../../src/run/job/schema.ts";

const jobOf = (model: JobInput["model"], workers: JobInput["workers"] = {}) =>
  jobSchema.parse({ input: "rows.jsonl", model, prompt: "x", workers });
const llama = { engine: "llama", name: "m" } as const;
const read = (config: JsonObject) => readAccelerateConfig(config, "acc.yaml");

describe("accelerate config", () => {
  it("says which GPUs and how many workers a job has", () => {
    const job = withAccelerate(jobOf(llama), read({ gpu_ids: "0,2", num_processes: 2 }));
    expect(job).toMatchObject({ workers: { max: 2 }, model: { devices: [0, 2] } });
    expect(job.model).not.toHaveProperty("gpuLayers");
    expect(withAccelerate(jobOf(llama), read({ gpu_ids: [1] })).model).toMatchObject({
      devices: [1],
    });
    expect(withAccelerate(jobOf(llama), read({ gpu_ids: "all" }))).toEqual(jobOf(llama));
  });

  it("keeps a model off the GPU", () => {
    const config = read({ use_cpu: true, gpu_ids: "all" });
    expect(withAccelerate(jobOf(llama), config).model).toMatchObject({ gpuLayers: 0 });
  });

  it("leaves alone what the job says, and engines without devices", () => {
    const config = read({ gpu_ids: "0,1", num_processes: 4 });
    const given = jobOf({ ...llama, devices: [3] }, { max: 1 });
    expect(withAccelerate(given, config)).toEqual(given);
    expect(withAccelerate(jobOf({ engine: "fake" }), config)).toEqual(
      jobOf({ engine: "fake" }, { max: 4 }),
    );
  });

  it("names what it does not read in one notice", () => {
    const config = {
      compute_environment: "LOCAL_MACHINE",
      mixed_precision: "bf16",
      gpu_ids: "all",
    };
    expect(read(config).notices).toEqual([
      "not read of acc.yaml: compute_environment, mixed_precision",
    ]);
    expect(read({ num_machines: 1 }).notices).toEqual([]);
  });

  it.each([
    [{ gpu_ids: "0,x" }, /gpu_ids/],
    [{ gpu_ids: "" }, /gpu_ids/],
    [{ num_processes: 0 }, /num_processes/],
    [{ use_cpu: "yes" }, /use_cpu/],
    [{ use_cpu: true, gpu_ids: "0" }, /stands beside use_cpu/],
    [{ num_machines: 2 }, /num_machines/],
  ])("refuses %j", (config, message) => {
    expect(() => read(config)).toThrow(message);
  });
});
