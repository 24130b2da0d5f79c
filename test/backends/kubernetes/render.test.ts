import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { BackendContext } from "../../../src/backends/context.ts";
import { openKubernetes } from "../../../src/backends/kubernetes/open.ts";
import { renderIndexedJob } from "../../../src/backends/kubernetes/render.ts";
import { type JobInput, jobSchema } from "../../../src/run/job/schema.ts";
import { refusedKeys, smallJob, workOf } from "../small-job.ts";

const golden = (name: string) =>
  readFileSync(new URL(`../../golden/kubernetes/${name}.yaml`, import.meta.url), "utf8");

const given: JobInput = {
  ...smallJob,
  backend: "kubernetes",
  kubernetes: { image: "registry.example/sluice:1" },
};

const render = (more: Partial<JobInput> = {}, work = {}) =>
  renderIndexedJob(workOf({ ...given, ...more }, work));

const problems = (more: object) => refusedKeys({ ...given, ...more });

describe("renderIndexedJob", () => {
  it("is this text for a small job", async () => {
    expect(await render()).toEqual({
      command: ["kubectl", "create", "-f", "sluice-out.yaml"],
      file: "sluice-out.yaml",
      text: golden("small"),
    });
  });

  it("is this text for a job with everything", async () => {
    const { text } = await render(
      {
        name: "Night run!",
        workers: { max: 3, cpu: 3.5, memory: "1.5G", gpu: "l40s:2" },
        kubernetes: {
          image: "i",
          command: ["node", "/opt/my tools/sluice.cjs"],
          setup: "ulimit -n 4096\n",
          namespace: "team",
          queue: "gpus",
          priorityClass: "low",
          serviceAccount: "batch",
          user: 1000,
          imagePullSecrets: ["registry"],
          nodeSelector: { "cloud/gpu": "l40s" },
          tolerations: [{ key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" }],
          volumes: [
            { path: "/data", claim: "data", subPath: "team" },
            { path: "/keys", secret: "keys", readOnly: true },
            { path: "/conf", configMap: "conf" },
            { path: "/host", hostPath: "/mnt/host" },
            { path: "/cache", emptyDir: "20Gi" },
          ],
          env: {
            HF_HOME: "/cache",
            AWS_SECRET_ACCESS_KEY: { secret: "aws", key: "secret" },
            AWS_REGION: { configMap: "aws", key: "region" },
          },
          envFrom: [{ secret: "all" }, { configMap: "more" }],
          retries: 2,
          gracePeriodSeconds: 100,
          keepSeconds: 600,
        },
      },
      { location: "/data/it's out", generation: 2, takers: 10, shares: [2, 3, 7] },
    );
    expect(text).toBe(golden("everything"));
  });

  it("says that a kind of GPU needs a label of the cluster", async () => {
    const context = { environment: {} } as BackendContext;
    const noticesOf = async (gpu: string, more: object = {}) => {
      const kubernetes = { ...given.kubernetes!, ...more };
      const job = jobSchema.parse({ ...given, workers: { max: 2, gpu }, kubernetes });
      return (await openKubernetes(context).workersFor(job, 10)).notices;
    };
    expect(await noticesOf("l40s:1")).toEqual([
      "GPUs of kind l40s: pods get GPUs of any kind unless kubernetes.nodeSelector names the nodes",
    ]);
    expect(await noticesOf("1")).toEqual([]);
    expect(await noticesOf("l40s:1", { nodeSelector: { gpu: "l40s" } })).toEqual([]);
  });

  it("refuses by name what does not fit", () => {
    expect(problems({ workers: {} })).toEqual(["workers.max"]);
    expect(problems({ kubernetes: undefined })).toEqual(["kubernetes.image"]);
    expect(problems({ backend: "local" })).toEqual(["kubernetes"]);
    const volumes = [{ path: "/a" }, { path: "/a", claim: "x", secret: "y" }];
    expect(problems({ kubernetes: { image: "i", volumes } })).toEqual([
      "kubernetes.volumes.0",
      "kubernetes.volumes.1",
      "kubernetes.volumes.1.path",
    ]);
    expect(problems({ trust: "data" })).toEqual(["kubernetes"]);
    // A manifest is kept in the cluster and in the run directory.
    const env = { A: "b", B_TOKEN: "b", C_TOKEN: { secret: "s", key: "k" } };
    expect(problems({ kubernetes: { image: "i", env } })).toEqual(["kubernetes.env.B_TOKEN"]);
  });
});
