import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { standInDriver, threeGpus } from "../engines/stand-in-driver.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { sluiceProgram } from "../sluice-program.ts";
import { serveFolder, startServe } from "./served.ts";
import { clientOf } from "./served-batches.ts";

/** Says what its process has, once as many processes as are expected have been asked. */
const predictor = `
  import { execFileSync } from "node:child_process";
  import { appendFileSync, readFileSync } from "node:fs";
  // Between a worker and its predictor stands what ends the predictor with the worker.
  const worker = Number(execFileSync("ps", ["-o", "ppid=", "-p", String(process.ppid)]).toString());
  let context;
  const processes = () => new Set(readFileSync("asked", "utf8").split("\\n")).size - 1;
  export const load = (loaded) => void (context = loaded);
  export async function predict(batch) {
    appendFileSync("asked", process.pid + "\\n");
    while (processes() < context.options.processes) await new Promise((go) => setTimeout(go, 20));
    const { devices, device, threads } = context;
    const shown = process.env.CUDA_VISIBLE_DEVICES;
    return batch.map(() => ({ devices, device, threads, shown, worker }));
  }
`;

type Share = { devices: string[]; device?: string; threads: number; shown: string; worker: number };

/** Runs 30 rows over a predictor on a machine with three GPUs; what its processes had. */
async function sharesOf(model: Record<string, unknown>, processes: number) {
  const folder = scratchFolder();
  writeFileSync(join(folder, "predict.mjs"), predictor);
  writeFileSync(join(folder, "rows.jsonl"), '{"text": "a"}\n'.repeat(30));
  const job = {
    input: "rows.jsonl",
    shard: { rows: 1 },
    model: {
      ...{ engine: "predictor", module: "./predict.mjs", options: { processes }, maxBatchRows: 1 },
      ...model,
    },
    output: "results.jsonl",
  };
  writeFileSync(join(folder, "job.json"), JSON.stringify(job));
  const PATH = `${standInDriver(threeGpus)}${delimiter}${process.env.PATH}`;
  const { CUDA_VISIBLE_DEVICES: _, ...environment } = process.env;
  const child = spawn(process.execPath, [sluiceProgram, "run", "-c", "job.json"], {
    cwd: folder,
    env: { ...environment, PATH },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const stderr = await text(child.stderr);
  const results = join(folder, "results.jsonl");
  const lines = existsSync(results) ? readFileSync(results, "utf8").trim().split("\n") : [];
  const shares = lines.map((line) => (JSON.parse(line) as { answer: Share }).answer);
  const different = new Map(shares.map((share) => [share.shown, share]));
  return { stderr, shares: [...different.values()].sort((a, b) => (a.shown < b.shown ? -1 : 1)) };
}

describe("a predictor on a machine with three GPUs", () => {
  it("has a worker for each, where there is one replica a worker", async () => {
    const { shares, stderr } = await sharesOf({ devices: "all" }, 3);
    expect(shares, stderr).toMatchObject([
      { devices: ["0"], device: "cuda:0", shown: "0" },
      { devices: ["1"], device: "cuda:0", shown: "1" },
      { devices: ["2"], device: "cuda:0", shown: "2" },
    ]);
    expect(new Set(shares.map(({ worker }) => worker)).size).toBe(3);
  });

  it("has a GPU for each replica of one worker", async () => {
    const { shares, stderr } = await sharesOf({ devices: [2, 0], replicas: 2 }, 2);
    expect(shares, stderr).toMatchObject([
      { devices: ["0"], shown: "0" },
      { devices: ["2"], shown: "2" },
    ]);
    expect(new Set(shares.map(({ worker }) => worker)).size).toBe(1);
  });

  it("is refused while planning with more replicas than GPUs", async () => {
    const { shares, stderr } = await sharesOf({ devices: "all", replicas: 4 }, 4);
    expect(stderr).toMatch(/JOB_INVALID.* 4 GPUs, and this machine shows 3/);
    expect(shares).toEqual([]);
  });
});

it("copies of served models are on the GPUs that the fewest others have", async () => {
  const folder = serveFolder();
  writeFileSync(
    join(folder, "shown.mjs"),
    "export const predict = (batch) => batch.map(() => process.env.CUDA_VISIBLE_DEVICES);\n",
  );
  const model = { engine: "predictor", module: "./shown.mjs", devices: "all" } as const;
  const PATH = `${standInDriver(threeGpus)}${delimiter}${process.env.PATH}`;
  const models = { a: model, b: model, c: model };
  const server = await startServe(folder, { models }, { PATH, CUDA_VISIBLE_DEVICES: "0,1,2" });
  const chats = clientOf(server).chat.completions;
  const messages = [{ role: "user" as const, content: "Which?" }];
  const shown = ["a", "b", "c"].map(async (name) => {
    const { choices } = await chats.create({ model: name, messages });
    return choices[0]!.message.content;
  });
  expect((await Promise.all(shown)).sort()).toEqual(["0", "1", "2"]);
});
