import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, it, type TestContext } from "vitest";
import { parse } from "yaml";
import { missingKubernetes } from "../../scripts/kubernetes.ts";
import { renderIndexedJob } from "../../src/backends/kubernetes/render.ts";
import { anyWork } from "../backends/kubernetes/any-work.ts";
import { runSluice, startSluice } from "../chaos/sluice-process.ts";
import { backendConformance } from "../conformance/backend-conformance.ts";
import { FleetCalls } from "../fleet-calls.ts";
import { KubernetesCluster, missingImage } from "../kubernetes-cluster.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { submissionsOf } from "../scheduled-job.ts";

const missing = missingKubernetes();
let cluster: KubernetesCluster;

beforeAll(async () => {
  if (missing === undefined) cluster = await KubernetesCluster.start();
});
afterAll(() => cluster?.stop());

/** A namespace for a team: the rights of docs/backend-kubernetes.md, and no pod with privileges. */
const team = `apiVersion: v1
kind: Namespace
metadata:
  name: team
  labels: { pod-security.kubernetes.io/enforce: restricted }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: sluice, namespace: team }
rules:
  - { apiGroups: [batch], resources: [jobs], verbs: [create, get, list, delete] }
  - { apiGroups: [""], resources: [pods, pods/log, events], verbs: [get, list] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: sluice, namespace: team }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: sluice }
subjects: [{ apiGroup: rbac.authorization.k8s.io, kind: User, name: stranger }]
`;

/** What a person does who mounts the folder of a claim that pods mount too. */
function person(rows: number, more = "", environment = cluster.environment) {
  const folder = scratchFolder();
  const lines = Array.from({ length: rows }, (_, row) => `{"id":"r${row}","text":"row ${row}"}\n`);
  writeFileSync(join(folder, "rows.jsonl"), lines.join(""));
  const job = `input: { path: rows.jsonl, id: id }
shard: { rows: 5 }
model: { engine: fake, latencyMs: 100, capacity: 1 }
prompt: "Say {{ text }}"
output: { path: out }
backend: kubernetes
workers: { max: 2 }
kubernetes:
  image: sluice
  volumes: [{ path: ${folder}, claim: shared }]
  ${more}
`;
  writeFileSync(join(folder, "job.yaml"), job);
  const call = (...parameters: string[]) => runSluice(parameters, folder, environment);
  const status = async () =>
    JSON.parse((await call("status", "out", "--json", "--workers")).stdout || "{}");
  return {
    ...{ folder, call, status },
    start: (...parameters: string[]) => startSluice(parameters, folder, environment),
    answered: async () => {
      const { rows } = await status();
      return (rows?.answered ?? 0) + (rows?.journaled ?? 0);
    },
    submissions: () => submissionsOf(join(folder, "out")),
    async expectWhole() {
      const { stdout } = await call("results", "out");
      const ids = stdout.trimEnd().split("\n");
      expect(ids.map((line) => JSON.parse(line).id)).toEqual(
        Array.from({ length: rows }, (_, row) => `r${row}`),
      );
      expect(await call("verify", "out")).toMatchObject({ code: 0 });
    },
  };
}

/** Without sizes, which the server writes in its own way, as 1Gi for 1024Mi, and what is empty. */
function essence(job: object): object {
  const text = JSON.stringify(job, (key, value) => {
    const isEmpty = typeof value === "object" && Object.keys(value ?? {}).length === 0;
    const isDefault = isEmpty || value === "" || value === false;
    return isDefault || key === "resources" || key === "emptyDir" ? undefined : value;
  });
  return JSON.parse(text);
}

const summaryOf = ({ stdout }: { stdout: string }) =>
  JSON.parse(stdout.trimEnd().split("\n").at(-1)!);

const skipWithoutCluster = (context: TestContext) => context.skip(missing !== undefined, missing);

backendConformance("kubernetes", {
  beforeEach: skipWithoutCluster,
  person(rows) {
    const { folder } = person(rows);
    const { environment } = cluster;
    return { folder, environment, out: "out", stored: join(folder, "out") };
  },
});

describe("backend kubernetes", () => {
  beforeEach(skipWithoutCluster);

  it("runs a job as pods: each row once, and all that tell of it agree", async () => {
    const { folder, call, status, submissions, expectWhole } = person(40);
    const rendered = await call("render", "job.yaml");
    const ended = await call("run", "job.yaml");
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    const [submission] = submissions();
    expect(submission).toMatchObject({ scheduler: "kubernetes", takers: 2, shares: "0-1" });
    expect(submission.sent).toBe(rendered.stdout);
    expect(submission.id).toMatch(/^default\/sluice-out-/);
    const rows = { total: 40, answered: 40, failed: 0 };
    expect(summaryOf(ended)).toMatchObject({ status: "SUCCESS", sealed: true, rows });
    const manifest = JSON.parse(readFileSync(join(folder, "out/_manifest.json"), "utf8"));
    expect(manifest.rows).toMatchObject(rows);
    expect(manifest.usage.completionTokens).toBe(summaryOf(ended).total_tokens_generated);
    const told = await status();
    expect(told).toMatchObject({ state: "successful", rows });
    const name = submission.id.split("/")[1];
    const places = told.workerList.map(({ scheduler }: { scheduler: string }) => scheduler).sort();
    expect(places).toEqual([
      expect.stringMatching(`^kubernetes ${name}-0-\\w+ 0$`),
      expect.stringMatching(`^kubernetes ${name}-1-\\w+ 1$`),
    ]);
    const logs = await call("logs", "out", "--share", "1");
    expect(logs.stdout).toMatch(new RegExp(`==> default/${name}-1-\\w+ <==\nrun .* tasks`));
    expect(logs.stdout).not.toContain(`${name}-0-`);
    await expectWhole();
  });

  it("goes on after --detach, shows itself to attach, and seals itself", async () => {
    const { call, status, submissions, expectWhole } = person(60);
    const left = await call("run", "job.yaml", "--detach");
    expect(left, left.stderr).toMatchObject({ code: 0 });
    expect(left.stderr).toContain("sluice attach out");
    expect((await status()).state).toMatch(/^(pending|running)$/);
    const attached = await call("attach", "out");
    expect(attached, attached.stderr).toMatchObject({ code: 0 });
    expect(summaryOf(attached)).toMatchObject({ status: "SUCCESS", sealed: true });
    expect(await status()).toMatchObject({ state: "successful", rows: { answered: 60 } });
    expect(submissions()).toHaveLength(1);
    await expectWhole();
  });

  it("starts another pod or not, as the worker's exit code says", async () => {
    const podsOf = async (id: string) => {
      const [namespace, name] = id.split("/");
      const label = `batch.kubernetes.io/job-name=${name}`;
      const about = ["get", "pods", "-l", label, "-o", "json", "-n", namespace!];
      return JSON.parse(await cluster.kubectl(...about)).items;
    };
    const ends = async (code: number, retries: number) => {
      const { call, submissions } = person(10, `setup: exit ${code}\n  retries: ${retries}`);
      const ended = await call("run", "job.yaml");
      expect(ended.code, ended.stderr).toBe(75);
      expect(ended.stderr).toContain(`ended with exit code ${code}`);
      return (await podsOf(submissions()[0].id)).length;
    };
    // Two workers each.
    expect(await Promise.all([ends(65, 3), ends(75, 1)])).toEqual([2, 4]);
  });

  it("waits for its queue, and says so", async () => {
    const { start, submissions, expectWhole } = person(10, "queue: gpus");
    const running = start("run", "job.yaml");
    await cluster.until(() => running.stderr().includes("waits: the job is suspended"));
    const [namespace, name] = submissions()[0].id.split("/");
    // What Kueue does once there is room.
    const admit = ["patch", "job", name!, "-n", namespace!, "-p", '{"spec":{"suspend":false}}'];
    await cluster.kubectl(...admit);
    const ended = await running.ended;
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    await expectWhole();
  });

  it("needs no more rights than the documents name, and no privileges of pods", async () => {
    const file = join(scratchFolder(), "team.yaml");
    writeFileSync(file, team);
    await cluster.kubectl("apply", "-f", file);
    const ours = (more: string) =>
      person(40, `namespace: team\n  ${more}`, cluster.strangerEnvironment);
    const refused = ours("").start("run", "job.yaml");
    await cluster.until(() => refused.stderr().includes("waits: no pod can be created: "));
    expect(refused.stderr()).toContain('violates PodSecurity "restricted:latest"');
    refused.kill("SIGTERM");
    expect(await refused.ended).toMatchObject({ code: 143 });
    const { call, start, answered, expectWhole, folder } = ours("user: 1000");
    // The folder is a claim, which the standard allows.
    expect(readFileSync(join(folder, "job.yaml"), "utf8")).toContain("claim: shared");
    const first = start("run", "job.yaml");
    await cluster.until(async () => (await answered()) >= 1);
    expect(await call("cancel", "out")).toMatchObject({ code: 0 });
    expect(await first.ended).toMatchObject({ code: 75 });
    const again = await call("run", "job.yaml");
    expect(again, again.stderr).toMatchObject({ code: 0 });
    const logs = await call("logs", "out");
    expect(logs.stdout, logs.stderr).toContain("==> team/sluice-out-");
    await expectWhole();
  });

  it("carries out a fleet of commands", async () => {
    const folder = scratchFolder();
    const calls = new FleetCalls(folder, cluster.environment);
    const job = `backend: kubernetes
kubernetes: { image: sluice, volumes: [{ path: ${folder}, claim: shared }] }
`;
    writeFileSync(join(folder, "fleet.yaml"), job);
    const text =
      "echo $JOB_COMPLETION_INDEX of $SLUICE_TASK_COUNT; exit $(( SLUICE_TASK_INDEX == 4 ))";
    await calls.fleet(
      ...["create", "-c", "fleet.yaml", "--name", "far", "--count", "6", "--max-scale", "2"],
      ...["--command", "sh", "--command", "-c", "--arg", text, "--cpu", "1", "--retries", "0"],
    );
    const over = await calls.untilOver("far");
    expect(over).toMatchObject({ tasks: { successful: 5, failed: 1, total: 6 } });
    const logs = await calls.fleet("logs", "--name", "far");
    expect([...logs.matchAll(/^(\d) of 6$/gm)].map(([, task]) => task)).toEqual([..."012345"]);
    const workers = await calls.fleet("worker", "list", "--name", "far");
    expect(workers).toMatch(/^far-\d .* kubernetes sluice-far-\S+-0-\w+ 0 /m);
    await calls.fleet(
      ...["create", "-c", "fleet.yaml", "--name", "long", "--count", "4", "--max-scale", "2"],
      ...["--command", "sh", "--command", "-c", "--arg", "touch begun; sleep 600", "--cpu", "1"],
    );
    await cluster.until(() => readdirSync(folder).includes("begun"));
    await calls.fleet("cancel", "--name", "long", "--hard");
    expect((await calls.untilOver("long")).state).toBe("canceled");
    const jobs = () => cluster.kubectl("get", "jobs", "-A", "-o", "name");
    await cluster.until(async () => !(await jobs()).includes("sluice-long"));
  });

  it("goes on where a worker, a node and the coordinator die", async () => {
    const other = await KubernetesCluster.start(["m1", "m2", "m3"]);
    try {
      const { folder, submissions, expectWhole } = person(400);
      const environment = other.environment;
      const first = startSluice(["run", "job.yaml"], folder, environment);
      await other.until(() => other.processesOn("m1").size + other.processesOn("m2").size >= 2);
      await other.until(() => /[1-9]\d*\/400/.test(first.stderr()));
      // A worker: its pod fails, and another one comes.
      const [pid] = [...other.processesOn("m1").values(), ...other.processesOn("m2").values()];
      process.kill(-pid!, "SIGKILL");
      first.killGroup("SIGKILL");
      const second = startSluice(["run", "job.yaml"], folder, environment);
      await other.until(() => second.stderr().includes("there already, as kubernetes default/"));
      const node = ["m1", "m2", "m3"].find((name) => other.processesOn(name).size > 0)!;
      const startMs = performance.now();
      await other.loseNode(node);
      // The lost node is nobody's failure, and another pod comes.
      const ignored = '"batch.kubernetes.io/job-index-ignored-failure-count": "1"';
      await other.until(async () => {
        const pods = JSON.parse(await other.kubectl("get", "pods", "-o", "json")).items;
        return pods.some(
          (pod: { status: { phase: string } }) =>
            pod.status.phase === "Running" && JSON.stringify(pod, null, 1).includes(ignored),
        );
      });
      console.log(`a worker elsewhere after ${Math.round(performance.now() - startMs)} ms`);
      const ended = await second.ended;
      expect(ended, ended.stderr).toMatchObject({ code: 0 });
      expect(submissions()).toHaveLength(1);
      await expectWhole();
    } finally {
      await other.stop();
    }
  });

  it("says why workers wait, and what cannot work", async () => {
    const image = person(10, "");
    const job = readFileSync(join(image.folder, "job.yaml"), "utf8");
    writeFileSync(
      join(image.folder, "job.yaml"),
      job.replace("image: sluice", `image: ${missingImage}`),
    );
    const waiting = image.start("run", "job.yaml");
    await cluster.until(() => waiting.stderr().includes("waits: ErrImagePull: not found"));
    waiting.kill("SIGTERM");
    expect(await waiting.ended).toMatchObject({ code: 143 });
    const place = person(10, "nodeSelector: { kubernetes.io/hostname: n9 }");
    const unplaced = place.start("run", "job.yaml");
    await cluster.until(() => unplaced.stderr().includes("waits: Unschedulable: 0/2 nodes"));
    unplaced.kill("SIGTERM");
    await unplaced.ended;
    const { folder } = person(10);
    const refused = await runSluice(["run", "job.yaml"], folder, cluster.strangerEnvironment);
    expect(refused).toMatchObject({ code: 69 });
    expect(refused.stderr).toContain("SCHEDULER_REFUSED");
    expect(readdirSync(folder)).not.toContain("out");
    const without = await runSluice(["run", "job.yaml"], folder, { PATH: "/nowhere" });
    expect(without).toMatchObject({ code: 69 });
    expect(without.stderr).toContain("kubectl is not on PATH");
    const unseen = scratchFolder();
    mkdirSync(join(unseen, "in"));
    const flags = ["--output", join(unseen, "out")];
    const elsewhere = await runSluice(["run", "job.yaml", ...flags], folder, cluster.environment);
    expect(elsewhere).toMatchObject({ code: 64 });
    expect(elsewhere.stderr).toContain("DIRECTORY_NOT_SHARED");
  });

  it("is accepted with every key, and refused with an unknown one", async () => {
    const { folder, call } = person(
      10,
      `namespace: default
  queue: gpus
  priorityClass: system-cluster-critical
  serviceAccount: batch
  imagePullSecrets: [registry]
  tolerations: [{ key: nvidia.com/gpu, operator: Exists, effect: NoSchedule }]
  env: { A: text, B: { secret: s, key: k }, C: { configMap: c, key: k } }
  envFrom: [{ secret: s }, { configMap: c }]
  retries: 0
  gracePeriodSeconds: 100
  keepSeconds: 60`,
    );
    const { stdout } = await call("render", "job.yaml", "--workers.cpu=2", "--workers.memory=1G");
    const file = join(folder, "job-of-it.yaml");
    const create = () =>
      cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", file);
    writeFileSync(file, stdout);
    expect(await create()).toContain("created (server dry run)");
    writeFileSync(file, stdout.replace("  completions:", "  complications: 1\n  completions:"));
    await expect(create()).rejects.toThrow("unknown field");
  });

  it("is accepted for any job, and kept word for word", async () => {
    const folder = scratchFolder();
    const sent: object[] = [];
    for (const [at, work] of fc.sample(anyWork, { numRuns: 200, seed: 11 }).entries()) {
      const { text } = await renderIndexedJob(work);
      writeFileSync(join(folder, `${1000 + at}.yaml`), text);
      sent.push(parse(text, { version: "1.1" }));
    }
    const create = ["create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", folder];
    const taken = (await cluster.kubectl(...create)).replace(/^\}\n\{/gm, "},{");
    const items = JSON.parse(`[${taken}]`) as object[];
    for (const [at, item] of items.entries()) {
      expect(essence(item)).toMatchObject(essence(sent[at]!));
    }
    expect(items).toHaveLength(200);
  });

  it("is refused before anything is planned, in the cluster's words", async () => {
    const { folder, call } = person(10, "nodeSelector: { pool: not a label }");
    const refused = await call("run", "job.yaml");
    expect(refused).toMatchObject({ code: 69 });
    expect(refused.stderr).toContain("spec.template.spec.nodeSelector: Invalid value");
    expect(readdirSync(folder)).not.toContain("out");
  });
});
