import { describe, expect, it } from "vitest";
import { stateOf } from "../../../src/backends/code-engine/client.ts";
import { renderFleet, workerProfileFor } from "../../../src/backends/code-engine/render.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { refusedKeys, smallJob, workOf } from "../small-job.ts";

const given: JobInput = {
  ...smallJob,
  backend: "code-engine",
  codeEngine: { image: "icr.example/sluice:1", stateStore: "tasks", subnetPool: "pool" },
};

const render = (more: Partial<JobInput> = {}, work = {}) =>
  renderFleet(workOf({ ...given, ...more }, work));

describe("renderFleet", () => {
  it("is a command a worker, and this command line", () => {
    const { text, command } = render();
    expect(
      text,
    ).toBe(`{"cmds":["sluice"],"args":["worker","s3://bucket/out","--share","0/2","--prepare"],"idx":"0"}
{"cmds":["sluice"],"args":["worker","s3://bucket/out","--share","1/2","--prepare"],"idx":"1"}
`);
    expect(command.join(" ")).toBe(
      "ibmcloud code-engine fleet create --name sluice-e67ce3fdad03 --image icr.example/sluice:1 " +
        "--tasks-from-local-file commands.jsonl --tasks-state-store tasks --subnetpool-name pool --worker-profile " +
        "cx2-2x4 --max-scale 2 --retrylimit 3",
    );
  });

  it("has all that a job says", () => {
    const { text, command } = render(
      {
        workers: { max: 3, gpu: "l40s:1", cpu: 24, memory: "120G" },
        codeEngine: {
          image: "i",
          registrySecret: "r",
          command: ["node", "/opt/sluice.cjs"],
          ...{ stateStore: "tasks", subnetPool: "pool" },
          mounts: { "/models": "models:/llm" },
          envs: { A: "b c" },
          envFrom: ["keys"],
          retries: 1,
          maxSeconds: 3600,
        },
      },
      { shares: [2, 7], takers: 9, generation: 2 },
    );
    expect(text.split("\n")[1]).toBe(
      '{"cmds":["node"],"args":["/opt/sluice.cjs","worker","s3://bucket/out","--share","7/9","--prepare","--generation","2"],"idx":"7"}',
    );
    expect(command.slice(4)).toEqual([
      ...["--name", "sluice-e67ce3fdad03", "--image", "i", "--registry-secret", "r"],
      ...["--tasks-from-local-file", "commands.jsonl", "--tasks-state-store", "tasks"],
      ...["--subnetpool-name", "pool", "--worker-profile", "gx3-24x120x1l40s"],
      ...["--cpu", "24", "--memory", "120G", "--gpu", "l40s:1", "--max-scale", "2"],
      ...["--retrylimit", "1", "--maxexecutiontime", "3600"],
      ...["--mount-data-store", "/models=models:/llm", "--env", "A=b c"],
      ...["--env-from-secret", "keys"],
    ]);
  });

  it("tells each worker the job's object store", () => {
    const { text } = render({ store: { endpoint: "https://cos.test", region: "eu-de" } });
    const { args } = JSON.parse(text.split("\n")[0]!);
    expect(args.slice(0, 7)).toEqual([
      ...["worker", "s3://bucket/out", "--store.endpoint", "https://cos.test"],
      ...["--store.region", "eu-de", "--share"],
    ]);
  });

  it("takes the smallest machine on which a worker fits", () => {
    expect(workerProfileFor({ gpu: "l40s:1", cpu: 24, memory: "120GiB" })).toBe("gx3-24x120x1l40s");
    expect(workerProfileFor({ gpu: "l4" })).toBe("gx3-16x80x1l4");
    expect(workerProfileFor({ gpu: "h100:8" })).toBe("gx3d-160x1792x8h100");
    expect(workerProfileFor({ cpu: 3, memory: "20GiB" })).toBe("mx2-4x32");
    expect(() => workerProfileFor({ gpu: "tpu" })).toThrow(
      "no machine of Code Engine has gpu: tpu, cpu: 1, memory: 1G",
    );
  });

  it("books a GPU's part of the machine, unless the job says less", () => {
    const booked = (workers: Partial<JobInput["workers"]>, more = {}) => {
      const codeEngine = { ...given.codeEngine!, ...more };
      const { command } = render({ workers: { max: 2, ...workers }, codeEngine });
      const of = (flag: string) => command[command.indexOf(flag) + 1];
      return [of("--worker-profile"), of("--cpu"), of("--memory"), of("--gpu")];
    };
    expect(booked({ gpu: "l40s" })).toEqual(["gx3-24x120x1l40s", "24", "120G", "l40s"]);
    expect(booked({ gpu: "h100:2", cpu: 4 })).toEqual([
      ...["gx3d-160x1792x8h100", "4", "448G", "h100:2"],
    ]);
    const workerProfile = "gx3-64x320x4l4";
    expect(booked({ gpu: "l4" }, { workerProfile })).toEqual([workerProfile, "16", "80G", "l4"]);
    // Code Engine takes no number without a kind.
    expect(booked({ gpu: "1" })).toEqual(["gx2-8x64x1v100", "8", "64G", "v100:1"]);
  });

  it("refuses a job without what a fleet needs", () => {
    const problems = (more: object) => refusedKeys({ ...given, ...more });
    expect(problems({ codeEngine: undefined })).toEqual(["codeEngine"]);
    expect(problems({ codeEngine: { image: "i", stateStore: "s" } })).toEqual([
      "codeEngine.subnetPool",
    ]);
    expect(problems({ backend: "local", codeEngine: given.codeEngine })).toEqual(["codeEngine"]);
    expect(problems({ workers: {} })).toEqual(["workers.max"]);
    // It would be on a command line, which all users of the machine see.
    expect(problems({ codeEngine: { ...given.codeEngine, envs: { A: "sk-abc" } } })).toEqual([
      "codeEngine.envs.A",
    ]);
  });
});

describe("the tasks that ibmcloud tells of", () => {
  it("are workers, in the one set of states", () => {
    const state = (task: object) => stateOf("f", task);
    expect(state({ index: "3", status: "running", worker_name: "w-1" })).toEqual({
      ...{ submission: "f", share: 3, id: "f 3", state: "running", node: "w-1" },
    });
    expect(state({ index: "000-00000-12", status: "Succeeded", result_code: 0 })).toMatchObject({
      ...{ share: 12, state: "successful", exitCode: 0 },
    });
    expect(state({ index: 1, status: "failed", result_code: "exit_75" })).toMatchObject({
      ...{ state: "failed", exitCode: 75 },
    });
    // Its first try failed.
    expect(state({ index: 1, status: "pending", result_code: "exit_1" })).toEqual({
      ...{ submission: "f", share: 1, id: "f 1", state: "pending" },
    });
    expect(state({ index: 1, status: "canceling" }).state).toBe("running");
  });
});
