import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import {
  killQuietly,
  pause,
  type SluiceProcess,
  startSluice,
  stillRunning,
} from "../chaos/sluice-process.ts";
import { isLong } from "../long.ts";

const root = mkdtempSync(join(tmpdir(), "sluice-orphans-"));
const met: number[] = [];
afterAll(() => {
  for (const pid of met) killQuietly(pid, "SIGKILL");
  rmSync(root, { recursive: true, force: true });
});

/** Starts a program for a row, which takes no notice of any signal that it may refuse. */
const startsGrandchild = `
const { spawn } = require("node:child_process");
const { appendFileSync } = require("node:fs");
const start = () => {
  const child = spawn("/bin/sh", ["-c", "trap '' TERM HUP INT; sleep 600 & wait"], { stdio: "ignore" });
  appendFileSync("pids", process.pid + "\\n" + child.pid + "\\n");
};
`;

const program = `${startsGrandchild}
process.on("SIGTERM", () => {});
setInterval(() => {}, 1000);
console.log(JSON.stringify({ ready: 1, protocol: 1 }));
require("node:readline").createInterface({ input: process.stdin }).on("line", start);
`;

const predictor = (after: string) => `import { createRequire } from "node:module";
const require = createRequire(import.meta.url);
${startsGrandchild}
export default class {
  async predict(rows) {
    start();
    ${after}
  }
}
`;

const never = "await new Promise(() => setInterval(() => {}, 1000));";
const held = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);";
const models: [string, object, string][] = [
  ["a program", { engine: "command", command: process.execPath, args: ["program.cjs"] }, ""],
  ["a predictor that waits", { engine: "predictor", module: "predictor.mjs" }, never],
  ["a predictor that holds its thread", { engine: "predictor", module: "predictor.mjs" }, held],
];

function newFolder(model: object, after: string): string {
  const folder = mkdtempSync(join(root, "run-"));
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "program.cjs"), program);
  writeFileSync(join(folder, "predictor.mjs"), predictor(after));
  writeFileSync(join(folder, "rows.jsonl"), '{"text":"a"}\n{"text":"b"}\n');
  const job = { input: "rows.jsonl", model, output: "out", workers: { max: 1 } };
  const isCommand = "command" in model;
  writeFileSync(
    join(folder, "job.json"),
    JSON.stringify({ ...job, ...(isCommand && { prompt: "{{ text }}" }) }),
  );
  return folder;
}

/** Waits until a row has started its program; its process and that of who started it. */
async function grandchildren(folder: string, run: SluiceProcess): Promise<number[]> {
  const file = join(folder, "pids");
  while (!existsSync(file) || readFileSync(file, "utf8").split("\n").length < 3) {
    if (run.hasEnded()) throw new Error(run.stderr());
    await pause(20);
  }
  const pids = readFileSync(file, "utf8").trim().split("\n").map(Number);
  met.push(...pids);
  return pids;
}

describe("a coordinator that is killed", () => {
  it.each(models)("leaves nothing that %s started for a row", async (_, model, after) => {
    const folder = newFolder(model, after);
    const run = startSluice(["run", "-c", "job.json", "--json"], folder);
    const pids = await grandchildren(folder, run);
    // To the coordinator alone, as a scheduler does that knows of one process.
    run.kill("SIGKILL");
    expect(await stillRunning([...run.workers, ...pids])).toEqual([]);
  });
});

/** What holds engines to their worker is the same; all of them are in `npm run test:long`. */
const ofJoining = isLong ? models : models.slice(0, 1);

describe("a joining worker that is killed", () => {
  it.each(ofJoining)("leaves nothing that %s started for a row", async (_, model, after) => {
    const folder = newFolder(model, after);
    await startSluice(["plan", "-c", "job.json", "--write"], folder).ended;
    const worker = startSluice(["worker", "out", "--share", "0/1"], folder);
    const pids = await grandchildren(folder, worker);
    worker.kill("SIGKILL");
    expect(await stillRunning(pids)).toEqual([]);
  });
});
