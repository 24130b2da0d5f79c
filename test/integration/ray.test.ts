import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  afterAll,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  onTestFinished,
  type TestContext,
} from "vitest";
import { status } from "../../src/api/inspect.ts";
import {
  killQuietly,
  pause,
  runSluice,
  type SluiceProcess,
  startSluice,
  stillRunning,
} from "../chaos/sluice-process.ts";
import { backendConformance } from "../conformance/backend-conformance.ts";
import { freePort } from "../free-ports.ts";
import { inLong, isLong } from "../long.ts";
import { missingCluster, RayCluster, rayPython, until, writeRayJob } from "../ray-cluster.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { missingS3Server, S3Server } from "../s3-server.ts";
import { answeredIn, expectWhole, slowed } from "../scheduled-job.ts";
import { interrupt, missingTerminals, startOnTerminal } from "../terminal-process.ts";
import { engineContext, findLlamaFiles } from "./llama-files.ts";
import { fleetTests, headToken, longFleetTests } from "./ray-fleets.ts";
import { writeSummaryJob } from "./recipe-runs.ts";
import { type Served, serveFolder, startServe } from "./served.ts";
import {
  type Batch,
  begun,
  chat,
  childrenOf,
  clientOf,
  fake,
  idsOf,
  isOver,
  linesOf,
  rows as requests,
  tryRead,
  until as untilBatch,
  verified,
} from "./served-batches.ts";

let cluster: RayCluster;

beforeAll(async () => {
  if (missingCluster !== undefined) return;
  // The numbers are declared: Ray counts them and looks at nothing.
  const two = { cpus: 11, gpus: 2, resources: { "accelerator_type:L40S": 1 } };
  cluster = await RayCluster.start(
    [{ cpus: 0 }, { ...two, labels: { zone: "a" } }, { ...two, labels: { zone: "b" } }],
    { SLUICE_HOME: engineContext.homeDirectory, HEAD_TOKEN: headToken },
  );
});
afterAll(() => cluster?.stop());

/** What a person does in a folder of their own on a node of the cluster. */
function folderOf(rows: number) {
  const folder = scratchFolder();
  const call = (...parameters: string[]) => runSluice(parameters, folder);
  return {
    folder,
    call,
    start: (...parameters: string[]) => startSluice(parameters, folder),
    status: async () => JSON.parse((await call("status", "out", "--json", "--workers")).stdout),
    manifest: () => JSON.parse(readFileSync(join(folder, "out/_manifest.json"), "utf8")),
    expectWhole: () => expectWhole(join(folder, "out"), rows),
  };
}

/** Answers where it is once a file lets it, so no run is over before the test has looked at it. */
const gated = `
  import { appendFileSync, existsSync } from "node:fs";
  const { SLUICE_RAY_NODE: node, CUDA_VISIBLE_DEVICES: gpu } = process.env;
  export async function predict(batch) {
    appendFileSync("asked", node + " " + gpu + " " + process.pid + "\\n");
    while (!existsSync("go")) await new Promise((later) => setTimeout(later, 50));
    return batch.map(() => ({ node, gpu }));
  }
`;

/** A run of such a predictor on the cluster, of which so many workers have begun. */
async function gatedRun(rows: number, workers: number, keys: object) {
  const me = folderOf(rows);
  const texts = Array.from({ length: rows }, (_, row) => `{"id":"r${row}"}\n`);
  writeFileSync(join(me.folder, "rows.jsonl"), texts.join(""));
  writeFileSync(join(me.folder, "gated.mjs"), gated);
  const job = {
    input: { path: "rows.jsonl", id: "id" },
    shard: { rows: 2 },
    model: { engine: "predictor", module: "./gated.mjs", maxBatchRows: 1 },
    output: "out",
    backend: "ray",
    ray: { address: cluster.address, python: rayPython, shared: true },
    ...keys,
  };
  writeFileSync(join(me.folder, "job.json"), JSON.stringify(job));
  const running = me.start("run", "job.json");
  onTestFinished(() => running.killGroup("SIGKILL"));
  const asked = join(me.folder, "asked");
  /** The places of workers that have begun. */
  const begun = () =>
    existsSync(asked)
      ? [...new Set(readFileSync(asked, "utf8").split("\n").slice(0, -1))].sort()
      : [];
  await until(() => begun().length >= workers || running.hasEnded(), `${workers} workers`);
  if (running.hasEnded()) throw new Error((await running.ended).stderr);
  const { workerList } = (await me.status()) as { workerList: ListedWorker[] };
  return {
    ...{ ...me, workerList, begun: begun() },
    async finish() {
      writeFileSync(join(me.folder, "go"), "");
      const ended = await running.ended;
      expect(ended, ended.stderr).toMatchObject({ code: 0 });
      return ended;
    },
  };
}

/** The example's own take half a minute each on a busy machine. */
const shortRecipe = `{"id":"r0","directions":["Bake at 350 degrees F for 30 minutes."]}\n`;

const summaryOf = ({ stdout }: { stdout: string }) =>
  JSON.parse(stdout.trimEnd().split("\n").at(-1)!);

interface ListedWorker {
  pid: number;
  scheduler: string;
}

/** How many workers each node has, the fullest one first. */
function perNode(workers: readonly ListedWorker[]): number[] {
  const counts = new Map<string, number>();
  for (const { scheduler } of workers) {
    const node = scheduler.split(" on ")[1]!;
    counts.set(node, (counts.get(node) ?? 0) + 1);
  }
  return [...counts.values()].sort((a, b) => b - a);
}

const skipWithoutCluster = (context: TestContext) =>
  context.skip(missingCluster !== undefined, missingCluster);

/** From outside, a coordinator on a node does what one does that was started there. */
const conforming: (readonly [name: string, addressOf: () => string])[] = [
  ["ray", () => cluster.address],
];
if (isLong) conforming.push(["ray, from outside of the cluster", () => cluster.dashboard]);
for (const [name, addressOf] of conforming) {
  backendConformance(name, {
    beforeEach: skipWithoutCluster,
    person(rows) {
      const folder = scratchFolder();
      writeRayJob(folder, rows, addressOf(), 2);
      return { folder, out: "out", stored: join(folder, "out"), environment: {} };
    },
  });
}

describe("backend ray", () => {
  beforeEach(skipWithoutCluster);

  it("carries out a recipe in an object store, on the nodes with a label", async ({ skip }) => {
    const { missing = missingS3Server } = await findLlamaFiles();
    skip(missing !== undefined, missing);
    const server = await S3Server.start();
    try {
      const folder = scratchFolder();
      const call = (...words: string[]) => runSluice(words, folder, server.environment);
      writeFileSync(join(folder, "rows.jsonl"), shortRecipe);
      const [input, output] = [server.location("rows.jsonl"), server.location("out")];
      expect(await call("upload", "rows.jsonl", input)).toMatchObject({ code: 0 });
      const job = [writeSummaryJob(folder), "--input", input, "--output", output];
      const ray = ["--backend=ray", "--ray.address", cluster.address, "--ray.python", rayPython];
      // The declared cores are more than there are.
      const size = ["--workers.cpu=2", "--set", "ray.labels={zone: b}"];
      // Two threads wait for one another where other tests take the cores: 2.5 times as long.
      const threads = ["--set", "model.threads=1"];
      const ended = await call("run", "-c", ...job, ...ray, ...size, ...threads);
      expect(ended, ended.stderr).toMatchObject({ code: 0 });
      expect(summaryOf(ended).rows).toMatchObject({ total: 1, answered: 1, failed: 0 });
      const { stdout: told } = await call("status", output, "--json", "--workers");
      const places = JSON.parse(told).workerList.map(({ scheduler }: ListedWorker) => scheduler);
      expect(places).toEqual([expect.stringMatching(`^ray \\w+ on ${cluster.addressOf(2)}$`)]);
      const { stdout } = await call("results", output);
      expect(JSON.parse(stdout).quantitativeMeasures.summary).toBe(
        "step 1: temperature=350 degrees F, time=30 minutes",
      );
      expect(await call("verify", output)).toMatchObject({ code: 0 });
    } finally {
      await server.stop();
    }
  });

  it("gives each worker a GPU, loses no row with a killed one, and all counts agree", async () => {
    const rows = { total: 40, answered: 40, failed: 0 };
    const workers = { max: 5, gpu: "1" };
    const run = await gatedRun(rows.total, 4, { workers });
    const [victim, ...others] = run.workerList.map(({ pid }) => pid);
    const nodes = [1, 2].map((node) => cluster.addressOf(node));
    const gpus = nodes.flatMap((node) => [`${node} 0`, `${node} 1`]);
    expect(run.begun).toEqual(gpus.map((gpu) => expect.stringMatching(`^${gpu} \\d+$`)));
    killQuietly(victim!, "SIGKILL");
    const ended = await run.finish();
    expect(ended.stderr).toMatch(/40\/40 rows, 20\/20 tasks/);
    const room = "5 workers are asked for, each with 1 CPU, 1 GPU, and there is room for 4";
    expect(ended.stderr).toContain(room);
    const summary = summaryOf(ended);
    expect(summary).toMatchObject({ status: "SUCCESS", sealed: true, rows });
    expect(run.manifest().rows).toMatchObject(rows);
    expect(await run.status()).toMatchObject({ state: "successful", rows });
    await run.expectWhole();
    // Nothing of it is left on the nodes.
    expect(await stillRunning(others)).toEqual([]);
  });

  it("fills one node after another with PACK: two workers of 5 CPUs on a node of 11", async () => {
    const ray = { address: cluster.address, python: rayPython, shared: true, strategy: "PACK" };
    const run = await gatedRun(40, 3, { workers: { max: 3, cpu: 5 }, ray });
    expect(perNode(run.workerList)).toEqual([2, 1]);
    await run.finish();
    await run.expectWhole();
  });

  it("refuses by name what cannot work, before anything is planned", async () => {
    const { folder, call } = folderOf(10);
    writeRayJob(folder, 10, cluster.address);
    const refused = async (...flags: string[]) => {
      const { code, stderr } = await call("run", "job.yaml", ...flags);
      expect(readdirSync(folder)).not.toContain("out");
      return [code, stderr];
    };
    expect(await refused("--ray.shared=false")).toEqual([
      64,
      expect.stringMatching(/DIRECTORY_NOT_SHARED.*output.path[\s\S]*ray.shared: true/),
    ]);
    expect(await refused("--ray.python", "/nowhere/python")).toEqual([
      69,
      expect.stringMatching(/RAY_MISSING[\s\S]*pip install "ray>=/),
    ]);
  });

  it("gives up, resumable, where no worker finds room", async () => {
    const me = folderOf(20);
    writeRayJob(me.folder, 20, cluster.address);
    const full = ["--workers.cpu=99", "--ray.maxRoomWaitMs=3000"];
    const ended = await me.call("run", "job.yaml", ...full);
    expect(ended, ended.stderr).toMatchObject({ code: 75 });
    expect(ended.stderr).toContain("error CLUSTER_FULL");
    expect(ended.stderr).toContain("no node of the cluster has room for a worker");
    // As the hint says.
    expect(await me.call("run", "job.yaml", "--workers.max=1")).toMatchObject({ code: 0 });
    await me.expectWhole();
  });
});

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/** A person outside of the cluster, with a job of rows that take 100 ms each, two at once. */
function outside(rows: number, workers = 1, folder = scratchFolder()) {
  writeRayJob(folder, rows, cluster.dashboard, workers);
  const call = (...words: string[]) => runSluice(words, folder);
  const start = (...words: string[]) => {
    const running = startSluice(words, folder, { TRACEPARENT: traceparent });
    onTestFinished(() => running.killGroup("SIGKILL"));
    return running;
  };
  return {
    ...{ folder, call, start },
    status: async () => JSON.parse((await call("status", "out", "--json")).stdout),
    /** The ids of the run's jobs, in order. */
    async jobs() {
      const { stdout } = await call("logs", "out");
      return [...stdout.matchAll(/^==> (sluice-\w+-\d+) <==$/gm)].map(([, id]) => id);
    },
    answered: () => answeredIn(join(folder, "out")),
    expectWhole: () => expectWhole(join(folder, "out"), rows),
  };
}

describe("backend ray from outside of the cluster", () => {
  beforeEach(skipWithoutCluster);

  it("ends like a local run, a module too, with the counts of status and manifest", async () => {
    const me = outside(40, 2);
    // Its folder is sent, whose place nodes do not know.
    writeFileSync(join(me.folder, "helper.mjs"), "export const twice = (text) => text + text;");
    const module = `import { twice } from "./helper.mjs";
      export const predict = (batch) =>
        batch.map(({ row }) => ({ text: twice(row.text), place: import.meta.url }));`;
    writeFileSync(join(me.folder, "predict.mjs"), module);
    const job = readFileSync(join(me.folder, "job.yaml"), "utf8")
      .replace(/^model: .*$/m, "model: { engine: predictor, module: ./predict.mjs }")
      .replace(/^prompt: .*$/m, "");
    writeFileSync(join(me.folder, "job.yaml"), job);
    // Two clients at the same moment submit one job.
    const [ended, twin] = await Promise.all([
      me.call("run", "job.yaml"),
      me.call("run", "job.yaml"),
    ]);
    for (const each of [ended, twin]) expect(each, each.stderr).toMatchObject({ code: 0 });
    expect(summaryOf(twin)).toEqual(summaryOf(ended));
    const rows = { total: 40, answered: 40, failed: 0 };
    const summary = summaryOf(ended);
    expect(summary).toMatchObject({
      status: "SUCCESS",
      sealed: true,
      rows: { ...rows, resumed: 0 },
    });
    expect(summary.output).toBe(join(me.folder, "out"));
    expect(summary.run_time_sec).toBeGreaterThan(0);
    expect(ended.stderr).toContain("40/40 rows, 8/8 tasks");
    expect(ended.stderr).toMatch(/(submitted as|there already, as) ray sluice-\w+-1\b/);
    expect(await me.status()).toMatchObject({ state: "successful", rows });
    const manifest = JSON.parse(readFileSync(join(me.folder, "out/_manifest.json"), "utf8"));
    expect(manifest).toMatchObject({ rows });
    await me.expectWhole();
    const { stdout } = await me.call("results", "out");
    expect(stdout).toContain("row 0row 0");
    expect(stdout).toMatch(/_ray_pkg_\w+\/files\/\S+\/predict\.mjs/);
    const logs = await me.call("logs", "out");
    expect(logs.stdout).toContain(JSON.stringify(summary));
    expect(await me.jobs()).toHaveLength(1);
  });

  inLong?.("follows a run that replaces a sealed one", async () => {
    const me = outside(40, 2);
    const first = await me.call("run", "job.yaml");
    const replaced = await me.call("run", "job.yaml", "--overwrite");
    expect(replaced.stderr).toContain("40/40 rows, 8/8 tasks");
    expect(summaryOf(replaced).run_id).not.toBe(summaryOf(first).run_id);
  });

  it("ends with the code and the message of a coordinator that fails", async () => {
    const me = outside(20);
    // A key does not leave this machine, and the cluster has none of that name.
    const secret = "sk-0123456789abcdef";
    const keyless = await me.call("run", "job.yaml", "--env", `API_KEY=${secret}`);
    expect(keyless, keyless.stderr).toMatchObject({ code: 64 });
    expect(keyless.stderr).toMatch(/error ENV_MISSING.*API_KEY/);
    const unstarted = await me.call("run", "job.yaml", "--ray.python=/nowhere/python");
    expect(unstarted, unstarted.stderr).toMatchObject({ code: 69 });
    expect(unstarted.stderr).toMatch(/error RAY_JOB_FAILED.*\n {2}hint: /);
  });

  it("refuses what cannot work before anything is sent", async () => {
    const me = outside(10);
    const refused = async (...flags: string[]) => {
      const { code, stderr } = await me.call("run", "job.yaml", ...flags);
      return [code, stderr];
    };
    expect(await refused("--ray.address=http://127.0.0.1:9")).toEqual([
      69,
      expect.stringMatching(/error RAY_UNREACHABLE.*127\.0\.0\.1:9[\s\S]*http:\/\/head:8265/),
    ]);
    expect(await refused("--ray.shared=false")).toEqual([
      64,
      expect.stringMatching(/DIRECTORY_NOT_SHARED.*output\.path[\s\S]*ray\.shared: true/),
    ]);
    expect(await refused("--fork")).toEqual([64, expect.stringContaining("UNSUPPORTED: ")]);
    expect(await refused("--ray.address=ray://head:10001")).toEqual([
      64,
      expect.stringContaining("no other will do"),
    ]);
    const { stdout, stderr } = await me.call("render", "job.yaml");
    expect(JSON.parse(stdout).entrypoint).toContain("run job.json --quiet");
    expect(stderr).toContain("/api/jobs/");
  });
});

describe("a run from outside of the cluster, each of whose jobs ends in another way", () => {
  beforeEach(skipWithoutCluster);

  const rows = { total: 400, answered: 400, failed: 0 };
  const folder = mkdtempSync(join(tmpdir(), "sluice-outside-"));
  let me: ReturnType<typeof outside>;
  let pass: () => void;
  beforeAll(() => {
    if (missingCluster !== undefined) return;
    me = outside(rows.total, 1, folder);
    pass = slowed(folder);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("tells of a coordinator that is killed", async () => {
    const first = me.start("run", "job.yaml");
    await until(async () => (await me.answered()) > 0, "answers");
    const record = join(folder, "out/_sluice/coordinators/000001.json");
    const { pid } = JSON.parse(readFileSync(record, "utf8"));
    const variables = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
    expect(variables).toContain(`TRACEPARENT=${traceparent}`);
    process.kill(pid, "SIGKILL");
    const ended = await first.ended;
    expect(ended, ended.stderr).toMatchObject({ code: 75 });
    expect(ended.stderr).toContain("error WORKERS_GONE");
    expect(ended.stderr).toContain("says more; the same command continues");
    const [, words = ""] = /hint: sluice (logs \S+) says more/.exec(ended.stderr) ?? [];
    expect((await me.call(...words.split(" "))).stdout).toMatch(/^==> sluice-\w+-1 <==$/m);
  });

  it("is resumed, and canceled by a signal to its client", async () => {
    const second = me.start("resume", "out");
    const isRunning = async () => (await status(join(folder, "out"))).run.state === "running";
    await until(async () => second.hasEnded() || (await isRunning()), "the second job");
    second.kill("SIGTERM");
    const stopped = await second.ended;
    expect(stopped, stopped.stderr).toMatchObject({ code: 143 });
    expect(summaryOf(stopped).status).toBe("CANCELED");
    expect((await me.status()).state).not.toBe("running");
  });

  it("goes on without its client, and the same command and attach find it", async () => {
    const third = me.start("run", "job.yaml");
    await until(() => /submitted as ray/.test(third.stderr()) || third.hasEnded(), "the job");
    third.kill("SIGKILL");
    if (missingTerminals === undefined) {
      const person = startOnTerminal(["run", "job.yaml"], folder);
      await until(() => /[1-9]\d*\/400/.test(person.said()), "the job again");
      person.type(interrupt);
      await until(() => person.said().includes("stop the workers at ray as well?"), "the question");
      person.type("n\n");
      expect(await person.ended).toMatchObject({
        ...{ code: 130, said: expect.stringContaining("sluice attach out") },
      });
    }
    const detached = await me.call("run", "job.yaml", "--detach");
    expect(detached, detached.stderr).toMatchObject({ code: 0 });
    expect(detached.stderr).toContain("the job is there already, as ray sluice-");
    expect(summaryOf(detached)).toMatchObject({ scheduler: "ray", submission: expect.any(String) });
    const other = await me.call("run", "job.yaml", "--workers.max=2");
    expect(other, other.stderr).toMatchObject({ code: 75 });
    expect(other.stderr).toContain("error COORDINATOR_LIVES");
    const both = [me.start("attach", "out"), me.start("run", "job.yaml")];
    const hasFound = (one: SluiceProcess) =>
      one.stderr().includes("400 rows in 80 tasks") || one.hasEnded();
    await until(() => both.every(hasFound), "two that look on");
    pass();
    const [attached, same] = await Promise.all([both[0]!.ended, both[1]!.ended]);
    expect(attached, attached.stderr).toMatchObject({ code: 0 });
    expect(same, same.stderr).toMatchObject({ code: 0 });
    for (const each of [attached, same]) expect(summaryOf(each).rows).toMatchObject(rows);
    const jobs = await me.jobs();
    expect(jobs).toHaveLength(3);
    expect(jobs.at(-1)).toBe(summaryOf(detached).submission);
    await me.expectWhole();
  });
});

describe("batches of a server, on the cluster", () => {
  beforeEach(skipWithoutCluster);

  /** A folder for servers, one after another, whose model answers slowly on one worker. */
  function batchFolder(cpu = 1, address = cluster.address) {
    const folder = serveFolder();
    const ray = { address, python: rayPython, shared: true };
    const options = {
      models: fake({ capacity: 4, latencyMs: 100 }),
      batches: { backend: "ray" as const, ray, workers: { max: 1, cpu } },
    };
    return {
      folder,
      serve: () => startServe(folder, options, { RAY_AUTH_MODE: "disabled" }),
      /** Where the workers of a batch are. */
      async places(id: string) {
        const run = `sluice-data/batches/${id}/output.jsonl`;
        const { stdout } = await runSluice(["status", run, "--json", "--workers"], folder);
        return (JSON.parse(stdout).workerList as ListedWorker[]).map(({ scheduler }) => scheduler);
      },
    };
  }

  const hasBegun = ({ request_counts: counts }: Batch) => counts!.completed > 5;

  it("go on there after kill -9 of the server, and every row is once in the results", async () => {
    const { folder, serve, places } = batchFolder();
    const first = await serve();
    const lines = [...requests(300), chat("hot", { temperature: 99 })];
    const { id } = await begun(clientOf(first), lines);
    const { request_counts: before } = await untilBatch(clientOf(first), id, hasBegun);
    expect(before!.completed).toBeLessThan(300);
    expect(childrenOf(first.pid).filter(({ batchToken }) => batchToken)).toEqual([]);
    await first.end("SIGKILL");

    const second = await serve();
    const client = clientOf(second);
    const batch = await untilBatch(client, id, isOver);
    expect(batch, JSON.stringify(batch.errors)).toMatchObject({
      ...{ status: "completed", model: "m" },
      request_counts: { total: 301, completed: 300, failed: 1 },
    });
    expect(batch.usage!.output_tokens).toBeGreaterThan(300);
    const answers = await linesOf(client, batch.output_file_id);
    expect(idsOf(answers)).toEqual(idsOf(requests(300)));
    expect(answers[0].response.body).toMatchObject({ object: "chat.completion", model: "m" });
    const [hot] = await linesOf(client, batch.error_file_id);
    const refusal = { type: "invalid_request_error", param: "temperature" };
    expect(hot).toMatchObject({
      ...{ custom_id: "hot", error: null },
      response: { status_code: 400, body: { error: refusal } },
    });
    await verified(folder, batch);
    // One worker of each server.
    const onNode = expect.stringMatching(/^ray \w+ on 127\.0\.0\.\d+$/);
    expect(await places(id)).toEqual([onNode, onNode]);
    const manifest = await fetch(`${second.baseUrl}/batches/${id}/manifest`);
    expect(await manifest.json()).toMatchObject({ rows: { total: 301, failed: 1 } });
    expect(await second.end("SIGTERM")).toBe(0);
  });

  inLong?.("can be cancelled there: what was answered is kept, the rest is named", async () => {
    const { folder, serve } = batchFolder();
    const client = clientOf(await serve());
    const { id } = await begun(client, requests(2000));
    await untilBatch(client, id, hasBegun);
    expect(await client.batches.cancel(id)).toMatchObject({ status: "cancelling" });
    const batch = await untilBatch(client, id, isOver);
    const answers = await linesOf(client, batch.output_file_id);
    const errors = await linesOf(client, batch.error_file_id);
    expect(batch).toMatchObject({
      status: "cancelled",
      request_counts: { total: 2000, completed: answers.length, failed: errors.length },
    });
    expect(answers.length).toBeGreaterThan(5);
    expect([...idsOf(answers), ...idsOf(errors)].toSorted()).toEqual(
      idsOf(requests(2000)).toSorted(),
    );
    const codes = errors.map(({ response, error }) => `${response} ${error?.code}`);
    expect(new Set(codes)).toEqual(new Set(["null batch_cancelled"]));
    await verified(folder, batch);
  });

  it("end at once where the cluster does not answer, with their server or without", async () => {
    const { folder, serve } = batchFolder(1, `127.0.0.1:${await freePort()}`);
    /** Ray looks for the head for half a minute, of which this is left after `looks`. */
    const leftMs = 20_000;
    const looks = async ({ pid }: Served) => {
      const hasBridge = () =>
        childrenOf(pid).some((child) =>
          tryRead(`/proc/${child.pid}/cmdline`).includes("sluice_ray"),
        );
      await until(hasBridge, "a bridge to the cluster");
      await pause(4000);
      expect(hasBridge()).toBe(true);
    };
    const first = await serve();
    const made = await begun(clientOf(first), requests(3));
    await looks(first);
    const beforeStopMs = performance.now();
    expect(await first.end("SIGTERM")).toBe(0);
    expect(performance.now() - beforeStopMs).toBeLessThan(leftMs);

    const second = await serve();
    const client = clientOf(second);
    await looks(second);
    const beforeCancelMs = performance.now();
    await client.batches.cancel(made.id);
    const batch = await untilBatch(client, made.id, isOver);
    expect(performance.now() - beforeCancelMs).toBeLessThan(leftMs);
    expect(batch).toMatchObject({ status: "cancelled", request_counts: { failed: 3 } });
    await verified(folder, batch);
  });

  it("wait for room there, of which the server's log tells, and can be cancelled", async () => {
    const { folder, serve } = batchFolder(99);
    const server = await serve();
    const client = clientOf(server);
    const { id } = await begun(client, requests(3));
    const hasNoRoom = () => server.log().includes(`${id}: 1 worker is asked for`);
    await until(hasNoRoom, "a notice that no node has room");
    expect(await client.batches.retrieve(id)).toMatchObject({ status: "in_progress" });
    await client.batches.cancel(id);
    const batch = await untilBatch(client, id, isOver);
    expect(batch).toMatchObject({
      status: "cancelled",
      request_counts: { completed: 0, failed: 3 },
    });
    expect(idsOf(await linesOf(client, batch.error_file_id))).toEqual(idsOf(requests(3)));
    await verified(folder, batch);
  });
});

describe("a fleet on Ray", () => {
  beforeEach(skipWithoutCluster);
  beforeAll(async () => {
    if (missingCluster !== undefined) return;
    await until(async () => (await cluster.booked()).length === 0, "the actors of others to leave");
  });

  for (const [name, test] of Object.entries({ ...(isLong && longFleetTests), ...fleetTests })) {
    it(name, () => test(cluster));
  }
});
