import { describe, expect, it } from "vitest";
import { DevicePool } from "../../../src/backends/local/device-pool.ts";
import { localBackend } from "../../../src/backends/local/local.ts";
import { workerEnvironment } from "../../../src/backends/local/worker-process.ts";
import { localStorage as openStorage } from "../../../src/data/storage/local.ts";
import { openFake } from "../../../src/engines/fake/engine.ts";
import type { FakeModelOptions } from "../../../src/engines/fake/options.ts";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { channelPair } from "../../../src/foundation/channel.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { locateRun } from "../../../src/run/directory/locate.ts";
import type { WorkerHandle } from "../../../src/run/dispatch/dispatch.ts";
import { type JobInput, type JobSpec, jobSchema } from "../../../src/run/job/schema.ts";
import { runJob } from "../../../src/run/run-job.ts";
import { StatusReader } from "../../../src/run/status/status.ts";
import type { FromWorker, ToWorker } from "../../../src/run/worker/protocol.ts";
import { type RunWorkerOptions, runWorker } from "../../../src/run/worker/run-worker.ts";
import { engineContext } from "../../engines/engine-context.ts";
import { standInDriver, threeGpus } from "../../engines/stand-in-driver.ts";
import { nothingPrepared } from "../../run/dispatching.ts";
import { dependenciesOf, preparedRun, scratchFolder } from "../../run/whole-run.ts";

type LlamaOptions = Partial<Extract<JobInput["model"], { engine: "llama" }>>;

const jobOf = (model: LlamaOptions = {}, rest: Partial<JobInput> = {}) =>
  jobSchema.parse({
    input: "/in.jsonl",
    model: { engine: "llama", name: "/m.gguf", ...model },
    prompt: "{{ text }}",
    ...rest,
  });

const poolOf = (environment: Record<string, string> = {}, lines: readonly string[] = threeGpus) =>
  new DevicePool({ PATH: standInDriver(lines), ...environment });

async function groupsOf(job: JobSpec, environment?: Record<string, string>) {
  const { groups, notices } = await poolOf(environment).groupsFor(job);
  return { groups: groups.map((group) => group.map(({ id }) => id).join(",")), notices };
}

describe("DevicePool", () => {
  it("gives each worker a GPU of its own", async () => {
    expect(await groupsOf(jobOf())).toEqual({ groups: ["0", "1", "2"], notices: [] });
  });

  it("gives each as many as its model needs, and refuses one that needs more", async () => {
    const vllm = (gpus: number) =>
      jobSchema.parse({
        ...jobOf(),
        model: { engine: "vllm", name: "owner/m", args: ["--tensor-parallel-size", gpus] },
      });
    expect((await groupsOf(vllm(3))).groups).toEqual(["0,1,2"]);
    expect(await groupsOf(vllm(2))).toEqual({
      groups: ["0,1"],
      notices: ["1 of 3 GPUs are left over"],
    });
    await expect(groupsOf(vllm(4))).rejects.toThrow(/needs 4 GPUs, and this machine shows 3/);
  });

  it("gives out those that the job names, in its order", async () => {
    const { groups } = await groupsOf(jobOf({ devices: [2, "GPU-8932"] }));
    expect(groups).toEqual(["2", "0"]);
  });

  it.each([{}, { env: { CUDA_VISIBLE_DEVICES: "2,1" } }])(
    "gives out those that the environment shows, %j",
    async (rest) => {
      const caller = { CUDA_VISIBLE_DEVICES: "env" in rest ? "0" : "2,1" };
      expect((await groupsOf(jobOf({}, rest), caller)).groups).toEqual(["2", "1"]);
    },
  );

  it("says which named GPUs are not there, and refuses a job of which none is", async () => {
    const { groups, notices } = await groupsOf(jobOf({ devices: [1, 7] }));
    expect(groups).toEqual(["1"]);
    expect(notices).toEqual([
      expect.stringMatching(/^model\.devices: 7 is not among the GPUs here: 0 \(NVIDIA L40S\), 1 /),
    ]);
    await expect(groupsOf(jobOf({ devices: [7, 8] }))).rejects.toMatchObject({
      code: "JOB_INVALID",
      message: expect.stringContaining("model.devices: 7, 8 is not among"),
    });
  });

  it.each<[string, LlamaOptions, string[], string | undefined]>([
    ["l40s:1", {}, ["0", "1"], undefined],
    ["L40S", {}, ["0", "1"], undefined],
    ["l40s:2", {}, ["0,1"], undefined],
    ["2", {}, ["0,1"], "1 of 3 GPUs are left over"],
    ["nvidia:2", { devices: [2, 0, 1] }, ["2,0"], "1 of 3 GPUs are left over"],
    ["nvidia:2", { devices: [0, 1], mainGpu: 1 }, ["1,0"], undefined],
    ["a100:2", {}, ["2"], "there is only 1; one worker has all that there is"],
    ["h100:1", {}, ["0", "1", "2"], "there is none of that name, only NVIDIA L40S, NVIDIA L40S"],
  ])("reads workers.gpu: %s with %j", async (gpu, model, groups, notice) => {
    const found = await groupsOf(jobOf(model, { workers: { gpu } }));
    expect(found.groups).toEqual(groups);
    const notices = notice === undefined ? [] : [expect.stringContaining(`: ${notice}`)];
    expect(found.notices).toEqual(notices);
  });

  it("spreads a model that has a main GPU over all devices, in one worker", async () => {
    expect((await groupsOf(jobOf({ devices: [0, 2, 1], mainGpu: 1 }))).groups).toEqual(["2,0,1"]);
    const outside = groupsOf(jobOf({ devices: [0, 1], mainGpu: 2 }));
    await expect(outside).rejects.toThrow("model.mainGpu: 2 is none of the 2 devices");
  });

  it("gives none to what computes on no GPU, and says so to who asked", async () => {
    expect(await groupsOf(jobOf({ gpuLayers: 0 }))).toEqual({ groups: [], notices: [] });
    const fake = jobSchema.parse({ ...jobOf(), model: { engine: "fake" }, workers: { gpu: "a" } });
    const { groups, notices } = await groupsOf(fake);
    expect(groups).toEqual([]);
    expect(notices[0]).toContain("workers.gpu: a is not used");
  });

  it("gives none where none are seen, and says so to who asked for some", async () => {
    const pool = new DevicePool({ PATH: "/nowhere" });
    expect(await pool.groupsFor(jobOf())).toEqual({ groups: [], notices: [] });
    const { notices } = await pool.groupsFor(jobOf({}, { workers: { gpu: "l40s:1" } }));
    expect(notices).toEqual(["workers.gpu: l40s:1: no GPU is seen on this machine"]);
    expect(await pool.environmentFor(jobOf(), 0)).toEqual({});
    const named = (await pool.groupsFor(jobOf({ devices: [0] }))).notices;
    expect(named).toEqual(["model.devices: no GPU is seen on this machine"]);
    const broken = new DevicePool({ PATH: standInDriver(["no driver"], 9) });
    expect((await broken.groupsFor(jobOf())).notices).toEqual([
      "GPUs are not given out (nvidia-smi: no driver)",
    ]);
  });

  it("gives a worker that is started again what it had", async () => {
    const pool = poolOf();
    const slots = [0, 1, 2, 1, 4];
    const given = await Promise.all(slots.map((slot) => pool.environmentFor(jobOf(), slot)));
    expect(given.map(({ CUDA_VISIBLE_DEVICES: shown }) => shown)).toEqual([..."01211"]);
  });

  it("leases all devices to one that spreads over them", async () => {
    const lease = (job: JobSpec) => poolOf().lease({ ...job, takesAll: true });
    expect((await lease(jobOf())).environment.CUDA_VISIBLE_DEVICES).toBe("0,1,2");
    const { devices } = await lease(jobOf({ devices: [2, 0] }));
    expect(devices.map(({ id }) => id)).toEqual(["2", "0"]);
  });

  it("leases the devices that the fewest others have", async () => {
    const pool = poolOf();
    const shownOf = async (job = jobOf()) => {
      const { environment, release } = await pool.lease(job);
      return { shown: environment.CUDA_VISIBLE_DEVICES, release };
    };
    const [first, second] = [await shownOf(), await shownOf(jobOf({ devices: [0, 1] }))];
    expect([first.shown, second.shown, (await shownOf()).shown]).toEqual(["0", "1", "2"]);
    second.release();
    second.release();
    expect([(await shownOf()).shown, (await shownOf()).shown]).toEqual(["1", "0"]);
    const none = await new DevicePool({ PATH: "/nowhere" }).lease(jobOf());
    expect(none.environment).toEqual({});
  });
});

type Opened = Record<string, string | undefined>[];

/** The fake engine, with the word of a GPU; it answers once all three workers have theirs. */
function gpuEngine(opened: Opened): NonNullable<RunWorkerOptions["openEngine"]> {
  const all = Promise.withResolvers<void>();
  return async (model, context) => {
    expect(model).toMatchObject({ engine: "llama", threads: 2 });
    opened.push({ ...context.environment });
    if (opened.length === 3) all.resolve();
    const fake = openFake(modelOptions.parse({ engine: "fake" }) as FakeModelOptions, context);
    return {
      name: "llama",
      capacity: 1,
      choices: { gpu: "cuda" },
      infer: (request, signal) => all.promise.then(() => fake.infer(request, signal)),
      close: () => fake.close(),
    };
  };
}

/** Workers inside this process. The first of slot 1 dies at its start. */
function gpuBackend(pool: DevicePool, started: Opened, opened: Opened) {
  const openEngine = gpuEngine(opened);
  return localBackend({
    machine: { cores: 8, memoryBytes: 2 ** 34 },
    groupsFor: (job) => pool.groupsFor(job),
    async startWorker(directory, job, generation, slot): Promise<WorkerHandle> {
      const environment = workerEnvironment({}, await pool.environmentFor(job, slot));
      const [near, far] = channelPair<ToWorker, FromWorker>();
      const isFirst = started.every(({ SLUICE_DEVICE: given }) => given !== "cuda:1");
      started.push(environment);
      const kill = () => near.close();
      if (slot === 1 && isFirst) return { channel: near, kill, ended: Promise.resolve("it died") };
      const dependencies = dependenciesOf({ random: seededRandom(started.length) });
      const context = engineContext({ environment });
      const at = { location: locateRun(directory), generation, dependencies };
      const served = runWorker({ ...at, engineContext: context, channel: far, openEngine });
      return { channel: near, kill, ended: served.then(() => "it left") };
    },
  });
}

describe("a run on a machine with three GPUs", () => {
  it("has a worker on each of them, which says so, also when it is started again", async () => {
    const rows = Array.from({ length: 60 }, (_, id) => `{"id": ${id}, "text": "row"}\n`).join("");
    const model = { engine: "llama" as const, name: "/m.gguf" };
    const { job, location, dependencies } = preparedRun(scratchFolder(), rows, { model });
    const [started, opened]: [Opened, Opened] = [[], []];
    const { summary } = await runJob(job, dependencies, {
      backendOf: () => gpuBackend(poolOf(), started, opened),
      ...{ overwrite: false, fork: false },
      ...nothingPrepared,
      onEvent() {},
      signal: new AbortController().signal,
    });
    expect(summary).toMatchObject({ status: "SUCCESS", rows: { answered: 60 } });
    const shown = (environments: Opened) =>
      environments.map((it) => it.CUDA_VISIBLE_DEVICES).sort();
    expect(shown(started)).toEqual(["0", "1", "1", "2"]);
    expect(shown(opened)).toEqual(["0", "1", "2"]);
    const { workers } = await new StatusReader(
      openStorage(location.directory),
      dependencies,
    ).read();
    expect(workers.map(({ device }) => device).sort()).toEqual(["cuda:0", "cuda:1", "cuda:2"]);
  });
});
