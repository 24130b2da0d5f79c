import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { sharesOf } from "../../../src/backends/joining/joining.ts";
import { SlurmClient } from "../../../src/backends/slurm/client.ts";
import { renderBatchScript, secondsOf } from "../../../src/backends/slurm/render.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { type JobInput, jobSchema } from "../../../src/run/job/schema.ts";
import { scratchFolder } from "../../run/whole-run.ts";
import { refusedKeys } from "../small-job.ts";

const given: JobInput = {
  input: "/data/in.jsonl",
  model: { engine: "fake" },
  prompt: "p",
  output: { path: "/data/out" },
  backend: "slurm",
  workers: { max: 2 },
};

const render = (more: Partial<JobInput> = {}, work = {}) =>
  renderBatchScript({
    job: jobSchema.parse({ ...given, ...more }),
    location: "/data/out",
    generation: 1,
    takers: 4,
    shares: [0, 1, 3],
    program: ["/opt/node", "/opt/sluice/main.js"],
    ...work,
  });

describe("renderBatchScript", () => {
  it("is this text for a small job", () => {
    expect(render()).toEqual({
      command: ["sbatch", "--parsable", "sluice-out.sh"],
      file: "sluice-out.sh",
      text: `#!/bin/sh
#SBATCH --job-name=sluice-out
#SBATCH --comment="sluice /data/out"
#SBATCH --array=0-1,3
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=/data/out/_sluice/logs/slurm-%A-%a.log
exec /opt/node /opt/sluice/main.js worker /data/out --share "$SLURM_ARRAY_TASK_ID/4"
`,
    });
  });

  it("is this text for a job with everything", () => {
    const { text } = render(
      {
        name: "Night run",
        workers: { max: 2, cpu: 3.5, memory: "1.5G", gpu: "a100:2" },
        slurm: {
          partition: "gpu,long",
          account: "team",
          qos: "high",
          constraint: "a100&nvlink",
          timeLimit: "0:04:00",
          output: "/logs of ours/%A.log",
          setup: "module load cuda\n",
          command: ["/opt/my tools/sluice"],
          extra: ["--exclusive", "--mail-user=me@here"],
        },
      },
      { location: "s3://bucket/out", generation: 2 },
    );
    expect(text).toBe(`#!/bin/sh
#SBATCH --job-name=sluice-Night-run
#SBATCH --comment="sluice s3://bucket/out"
#SBATCH --array=0-1,3
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=1536M
#SBATCH --gres=gpu:a100:2
#SBATCH --partition=gpu,long
#SBATCH --account=team
#SBATCH --qos=high
#SBATCH --constraint=a100&nvlink
#SBATCH --time=0:04:00
#SBATCH --signal=B:USR1@60
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output="/logs of ours/%A.log"
#SBATCH --exclusive
#SBATCH --mail-user=me@here
module load cuda
exec '/opt/my tools/sluice' worker s3://bucket/out --share "$SLURM_ARRAY_TASK_ID/4" --generation 2
`);
  });

  it("tells each worker the job's object store", () => {
    const { text } = render({
      store: { endpoint: "https://s3.test", conditional: "if-none-match" },
    });
    expect(text).toContain(
      " worker /data/out --store.endpoint https://s3.test --store.conditional if-none-match --share ",
    );
  });

  it("asks for GPUs by number or by kind, and for those that the model needs", () => {
    const gres = (more: Partial<JobInput>) => /--gres=(.*)/.exec(render(more).text)?.[1];
    expect(gres({})).toBeUndefined();
    expect(gres({ workers: { max: 1, gpu: "2" } })).toBe("gpu:2");
    expect(gres({ workers: { max: 1, gpu: "l40s" } })).toBe("gpu:l40s:1");
    const model = { engine: "vllm" as const, name: "m", args: ["--tensor-parallel-size", "4"] };
    expect(gres({ model })).toBe("gpu:4");
  });

  it("keeps a line a line, and Slurm's signs out of a folder's name", () => {
    const { text } = render({}, { location: "/data/50%/it's" });
    expect(text).toContain(`--output="/data/50%%/it's/_sluice/logs/slurm-%A-%a.log"`);
    expect(text).toContain(`worker '/data/50%/it'\\''s' --share`);
    for (const slurm of [
      { partition: "a\n#SBATCH --uid=0" },
      { extra: ["--wrap=x"] },
      { extra: ["--array=1"] },
      { extra: ["-p main"] },
      { timeLimit: "soon" },
    ]) {
      expect(() => render({ slurm }), JSON.stringify(slurm)).toThrow();
    }
    expect(() => render({ workers: { max: 1, gpu: "a\nrm -rf ~" } })).toThrow("must be a number");
    expect(() => render({}, { location: "/data/a\nrm -rf ~" })).toThrow("must be one line");
  });

  it("refuses a job that Slurm cannot carry out by name", () => {
    const problems = (more: object) => refusedKeys({ ...given, ...more });
    expect(problems({ workers: {} })).toEqual(["workers.max"]);
    expect(problems({ backend: "local", slurm: { qos: "high" } })).toEqual(["slurm"]);
    expect(problems({ trust: "data", slurm: { setup: "rm -rf ~" } })).toEqual(["slurm.setup"]);
  });
});

describe("secondsOf", () => {
  it("reads each form of a time limit", () => {
    const cases = { 90: 5400, "1:30": 90, "1:30:00": 5400, "2-12": 216_000, "1-0:30": 88_200 };
    for (const [text, seconds] of Object.entries(cases))
      expect(secondsOf(text), text).toBe(seconds);
    expect(secondsOf("UNLIMITED")).toBeUndefined();
  });
});

describe("sharesOf", () => {
  const all = Array.from({ length: 100 }, (_, task) => task);

  it("gives each worker a share, and no worker an empty one", () => {
    expect(sharesOf(all, 100, 4, 1001)).toEqual({ takers: 4, shares: [0, 1, 2, 3] });
    expect(sharesOf([0, 1, 2], 3, 16, 1001)).toEqual({ takers: 3, shares: [0, 1, 2] });
  });

  it("divides the rest of a run among all workers", () => {
    const { takers, shares } = sharesOf(all.slice(76), 100, 4, 1001);
    expect([takers, shares]).toEqual([13, [9, 10, 11, 12]]);
    expect(sharesOf([7], 100, 4, 1001).shares).toHaveLength(1);
  });

  it("stays below the highest index of an array", () => {
    expect(sharesOf(all, 100, 10, 10).takers).toBe(10);
    expect(sharesOf(all.slice(90), 100, 10, 10)).toEqual({ takers: 10, shares: [9] });
  });
});

describe("SlurmClient", () => {
  it.each(["50%x", 'the "best"', "it's"])("makes the folder of the logs in %s", async (name) => {
    const folder = scratchFolder();
    writeFileSync(join(folder, "sbatch"), "#!/bin/sh\necho 7\n", { mode: 0o755 });
    const location = join(folder, name, "out");
    const environment = { ...process.env, PATH: `${folder}:${process.env.PATH}` };
    const client = new SlurmClient({ environment, clock: systemClock });
    expect(await client.submit(render({}, { location }))).toBe("7");
    expect(existsSync(join(location, "_sluice/logs"))).toBe(true);
  });
});
