import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { status } from "../../src/api/inspect.ts";
import { runSluice, startSluice } from "../chaos/sluice-process.ts";
import { missingCluster, RayCluster, until, writeRayJob } from "../ray-cluster.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { answeredIn, expectWhole } from "../scheduled-job.ts";
import { engineContext } from "./llama-files.ts";

let cluster: RayCluster;

beforeAll(async () => {
  if (missingCluster !== undefined) return;
  const { homeDirectory: SLUICE_HOME } = engineContext;
  cluster = await RayCluster.start([{ cpus: 1 }, { cpus: 4 }], { SLUICE_HOME });
});
afterAll(() => cluster?.stop());

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/** A person outside of the cluster, with a job of rows that take 100 ms each. */
function outside(rows: number) {
  const folder = scratchFolder();
  writeRayJob(folder, rows, cluster.dashboard, 2);
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

const summaryOf = ({ stdout }: { stdout: string }) =>
  JSON.parse(stdout.trimEnd().split("\n").at(-1)!);

describe("backend ray from outside of the cluster", () => {
  beforeEach((context) => context.skip(missingCluster !== undefined, missingCluster));

  it("ends like a local run, with the counts of status and manifest", async () => {
    const me = outside(40);
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
    const logs = await me.call("logs", "out");
    expect(logs.stdout).toContain(JSON.stringify(summary));
    const again = await me.call("run", "job.yaml");
    expect(again, again.stderr).toMatchObject({ code: 0 });
    expect(again.stderr).toContain("this run is finished, there is nothing to do");
    expect(await me.jobs()).toHaveLength(2);
  });

  it("sends the folder of a module, whose place nodes do not know", async () => {
    const me = outside(1);
    writeFileSync(join(me.folder, "helper.mjs"), "export const twice = (text) => text + text;");
    const module = `import { twice } from "./helper.mjs";
      export const predict = (batch) =>
        batch.map(({ row }) => ({ text: twice(row.text), place: import.meta.url }));`;
    writeFileSync(join(me.folder, "predict.mjs"), module);
    const job = readFileSync(join(me.folder, "job.yaml"), "utf8")
      .replace(/^model: .*$/m, "model: { engine: predictor, module: ./predict.mjs }")
      .replace(/^prompt: .*$/m, "");
    writeFileSync(join(me.folder, "job.yaml"), job);
    const ended = await me.call("run", "job.yaml");
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    const { stdout } = await me.call("results", "out");
    expect(stdout).toContain("row 0row 0");
    expect(stdout).toMatch(/_ray_pkg_\w+\/files\/\S+\/predict\.mjs/);
  });

  it("goes on without its client, and the same command and attach find it", async () => {
    const me = outside(150);
    const first = me.start("run", "job.yaml");
    await until(() => /submitted as ray/.test(first.stderr()) || first.hasEnded(), "the job");
    first.kill("SIGKILL");
    const detached = await me.call("run", "job.yaml", "--detach");
    expect(detached, detached.stderr).toMatchObject({ code: 0 });
    expect(detached.stderr).toContain("the job is there already, as ray sluice-");
    expect(summaryOf(detached)).toMatchObject({ scheduler: "ray", submission: expect.any(String) });
    const other = await me.call("run", "job.yaml", "--workers.max=1");
    expect(other, other.stderr).toMatchObject({ code: 75 });
    expect(other.stderr).toContain("error COORDINATOR_LIVES");
    const [attached, same] = await Promise.all([
      me.call("attach", "out"),
      me.call("run", "job.yaml"),
    ]);
    expect(attached, attached.stderr).toMatchObject({ code: 0 });
    expect(same, same.stderr).toMatchObject({ code: 0 });
    for (const each of [attached, same]) {
      expect(summaryOf(each).rows).toMatchObject({ total: 150, answered: 150, failed: 0 });
    }
    expect(await me.jobs()).toEqual([summaryOf(detached).submission]);
    await me.expectWhole();
  });

  it("is canceled by cancel and by a signal to its client, and continues", async () => {
    const me = outside(100);
    const first = me.start("run", "job.yaml");
    await until(async () => (await me.answered()) > 0, "answers");
    expect((await me.call("cancel", "out")).stdout).toContain("stopped: what is done is kept");
    const canceled = await first.ended;
    expect(canceled, canceled.stderr).toMatchObject({ code: 75 });
    const before = summaryOf(canceled);
    expect(before.status).toBe("CANCELED");
    expect(before.rows.answered).toBeGreaterThan(0);
    const second = me.start("run", "job.yaml");
    const isRunning = async () => (await status(join(me.folder, "out"))).run.state === "running";
    await until(async () => second.hasEnded() || (await isRunning()), "the second job");
    second.kill("SIGTERM");
    const stopped = await second.ended;
    expect(stopped, stopped.stderr).toMatchObject({ code: 143 });
    expect(summaryOf(stopped).status).toBe("CANCELED");
    expect((await me.status()).state).not.toBe("running");
    const third = await me.call("resume", "out");
    expect(third, third.stderr).toMatchObject({ code: 0 });
    expect(summaryOf(third).rows).toMatchObject({ total: 100, answered: 100 });
    expect(await me.jobs()).toHaveLength(3);
    await me.expectWhole();
  });

  it("tells of a coordinator that is killed, and the same command continues", async () => {
    const me = outside(100);
    const first = me.start("run", "job.yaml");
    await until(async () => (await me.answered()) > 0, "answers");
    const record = join(me.folder, "out/_sluice/coordinators/000001.json");
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
    const again = await me.call("run", "job.yaml");
    expect(again, again.stderr).toMatchObject({ code: 0 });
    expect(summaryOf(again).rows.resumed).toBeGreaterThan(0);
    await me.expectWhole();
  });

  it("ends with the code and the message of a coordinator that fails", async () => {
    const me = outside(20);
    const late = await me.call("run", "job.yaml", "--workers.cpu=99", "--ray.maxRoomWaitMs=2000");
    expect(late, late.stderr).toMatchObject({ code: 75 });
    expect(late.stderr).toContain("error CLUSTER_FULL");
    expect(summaryOf(late)).toMatchObject({ stopped_by: { code: "CLUSTER_FULL" } });
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
