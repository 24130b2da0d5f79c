import { describe, expect, it } from "vitest";
import type { RayNode } from "../../../src/backends/ray/bridge.ts";
import {
  assertVisible,
  bookedBy,
  fullestNode,
  rayWorkers,
  roomOn,
  shownBooking,
} from "../../../src/backends/ray/placement.ts";
import { jobSchema } from "../../../src/run/job/schema.ts";

const given = { input: "s3://b/in.jsonl", output: "s3://b/out", prompt: "p", backend: "ray" };

const job = (changes: object = {}) =>
  jobSchema.parse({ ...given, model: { engine: "fake" }, ...changes });

let count = 0;
const node = (resources: Record<string, number>, more: Partial<RayNode> = {}): RayNode => ({
  ...{ id: `n${count++}`, address: "10.0.0.1", alive: true, labels: {}, drainsAt: null },
  resources,
  ...more,
});

const four = Array.from({ length: 4 }, () => node({ CPU: 16, memory: 64 * 2 ** 30 }));

describe("what a worker books", () => {
  it("is what the job says, by Ray's names", () => {
    const workers = { cpu: 5, memory: "2G", gpu: "a100:2" };
    const ray = { resources: { tape: 1 } };
    const nodes = [node({ CPU: 8, GPU: 8, "accelerator_type:A100": 1 })];
    const booked = bookedBy(job({ workers, ray }), nodes);
    expect(booked).toEqual({
      ...{ cpu: 5, gpu: 2, memoryBytes: 2 * 2 ** 30, acceleratorType: "A100" },
      custom: { tape: 1 },
    });
    expect(shownBooking(booked)).toBe("5 CPUs, 2 A100s, 2048 MiB, 1 tape");
  });

  it("is one core, all cores of a node, or a GPU: as the engine computes", () => {
    const llama = { model: { engine: "llama", name: "smollm2-135m-instruct" } };
    const nodes = [node({ CPU: 0 }), node({ CPU: 8 }), node({ CPU: 16 })];
    expect(bookedBy(job(), nodes)).toEqual({ cpu: 1, gpu: 0, custom: {} });
    expect(bookedBy(job(llama), nodes)).toEqual({ cpu: 8, gpu: 0, custom: {} });
    const behindSmallHead = [node({ CPU: 2 }), node({ CPU: 64 }), node({ CPU: 64 })];
    expect(bookedBy(job(llama), behindSmallHead).cpu).toBe(64);
    expect(bookedBy(job(llama), [node({ CPU: 10 }), node({ CPU: 16 })]).cpu).toBe(10);
    expect(bookedBy(job(llama), []).cpu).toBe(1);
    expect(bookedBy(job(llama), [node({ CPU: 8, GPU: 2 })])).toMatchObject({ cpu: 1, gpu: 1 });
    expect(bookedBy(job({ workers: { gpu: "2" } }), nodes)).toMatchObject({ gpu: 2 });
  });

  it("is rounded up above one, as Ray takes whole numbers", () => {
    expect(bookedBy(job({ workers: { cpu: 2.5 } }), four).cpu).toBe(3);
    expect(bookedBy(job({ workers: { cpu: 0.5 } }), four).cpu).toBe(0.5);
  });
});

describe("workers of a cluster", () => {
  it("are three of 5 CPUs on each of four nodes with 16", () => {
    const asked = job({ workers: { max: 12, cpu: 5 } });
    expect(four.map((each) => roomOn(each, bookedBy(asked, four)))).toEqual([3, 3, 3, 3]);
    expect(rayWorkers(asked, 100, four)).toEqual({ workers: 12, notices: [], cores: 5 });
  });

  it("are as many as are asked for, with a notice if there is no room for all", () => {
    const choice = rayWorkers(job({ workers: { max: 13, cpu: 5 } }), 100, four);
    expect(choice.workers).toBe(13);
    expect(choice.notices).toEqual([
      "13 workers are asked for, each with 5 CPUs, and there is room for 12 now; the others start when nodes join",
    ]);
    expect(rayWorkers(job({ workers: { max: 1, cpu: 99 } }), 100, four).notices[0]).toContain(
      "1 worker is asked for, each with 99 CPUs, and no node of the cluster has room for a worker",
    );
  });

  it("are by default those that have work: all places for models, few for fast engines", () => {
    const llama = { model: { engine: "llama", name: "smollm2-135m-instruct" } };
    expect(rayWorkers(job(llama), 100, four).workers).toBe(4);
    expect(rayWorkers(job(), 100, four).workers).toBe(1);
    expect(rayWorkers(job(), 1_000_000, four).workers).toBe(10);
    expect(rayWorkers(job({ workers: { min: 3 } }), 100, four).workers).toBe(3);
    expect(rayWorkers(job(), 100, []).workers).toBe(1);
  });

  it("fit by every resource, by shares, and by labels", () => {
    const gpu = node({ CPU: 64, GPU: 4, memory: 2 ** 30 }, { labels: { zone: "a" } });
    const booked = (workers: object) => bookedBy(job({ workers }), [gpu]);
    expect(roomOn(gpu, booked({ cpu: 0.1 }))).toBe(640);
    expect(roomOn(gpu, booked({ gpu: "1" }))).toBe(4);
    expect(roomOn(gpu, booked({ memory: "512M" }))).toBe(2);
    const wide = { workers: { max: 9, gpu: "1" }, ray: { labels: { zone: "b" } } };
    expect(rayWorkers(job(wide), 9, [gpu]).notices[0]).toContain("no node");
    const other = rayWorkers(job({ workers: { max: 1, gpu: "l40s" } }), 9, [gpu]);
    expect(other.notices).toEqual([
      "workers.gpu: no node tells Ray that it has l40s: any GPU is booked",
    ]);
  });

  it("fill one node after another with PACK, but none that leaves or is avoided", () => {
    const [first, second, third, last] = [...four];
    const leaving = { ...last!, drainsAt: 1 };
    const nodes = [first!, second!, third!, leaving];
    const booked = bookedBy(job({ workers: { cpu: 5 } }), nodes);
    const placed = new Map([
      [first!.id, 3],
      [second!.id, 1],
      [leaving.id, 2],
    ]);
    const on = (id: string) => placed.get(id) ?? 0;
    expect(fullestNode(nodes, booked, on, [])).toBe(second!.id);
    expect(fullestNode(nodes, booked, on, [second!.id])).toBe(third!.id);
  });
});

describe("places of a run", () => {
  it("must be visible from all nodes", () => {
    const local = job({ output: "/home/me/out" });
    const refused = expect.objectContaining({ code: "DIRECTORY_NOT_SHARED" });
    expect(() => assertVisible(local, four)).toThrow(refused);
    expect(() => assertVisible(job({ input: "/in.jsonl" }), four)).toThrow(
      expect.objectContaining({ place: expect.objectContaining({ field: "input.0.path" }) }),
    );
    assertVisible(job(), four);
    assertVisible(local, four.slice(1, 2));
    assertVisible(job({ output: "/nfs/out", ray: { shared: true } }), four);
  });
});

describe("keys of backend ray", () => {
  it("are refused where they do not fit", () => {
    const refusal = (changes: object) => {
      const { error } = jobSchema.safeParse({ ...given, model: { engine: "fake" }, ...changes });
      return error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
    };
    expect(refusal({ backend: "local", ray: {} })).toEqual([
      "ray: it goes with backend: ray, and this is backend: local",
    ]);
    expect(refusal({ backend: "local", workers: { min: 2 } })).toEqual([
      "workers.min: it goes with backend: ray, and this is backend: local",
    ]);
    expect(refusal({ workers: { min: 3, max: 2 } })).toEqual([
      "workers.min: it is above workers.max, which is 2",
    ]);
    for (const address of ["http://head:8265", "https://ray.example/team/", "head:6379"]) {
      expect(refusal({ ray: { address } })).toBeUndefined();
    }
    for (const address of ["http://me:pw@head:8265", "http://head/?a=b", "ray://head:10001"]) {
      expect(refusal({ ray: { address } })![0]).toMatch(/^ray.address: must be HOST:PORT/);
    }
    expect(refusal({ trust: "data", ray: { python: "/evil", runtimeEnv: {} } })).toEqual([
      "ray.python: trust: data executes nothing, and this starts programs",
      "ray.runtimeEnv: trust: data executes nothing, and this starts programs",
    ]);
    expect(refusal({ ray: { adress: "x" } })![0]).toContain("adress");
    expect(refusal({ ray: { runtimeEnv: { env_vars: { A: "b", HF_TOKEN: "hf_abc" } } } })).toEqual([
      "ray.runtimeEnv.env_vars.HF_TOKEN: looks like a secret, and is kept and shown; " +
        "the job's env passes it to workers",
    ]);
  });
});
