import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { S3Proxy } from "../test/s3-proxy.ts";
import { bucket, missingS3Server, S3Server } from "../test/s3-server.ts";
import { runSluice } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const folder = join(dataDirectory, "joining");
const workers = 16;
/** These are stopped for 9 of 10 tenths of a second, … */
const slowed = [5];
/** … and these are killed after a fifth of the work. */
const killed = [3, 11];
const tenthMs = 100;
const requestMs = 100;
const rowsPerTask = 10;
/** Added to each request to the store. */
const storeLatencyMs = 30;
/** 1.15 times the ideal. */
const goal = 0.87;

/** Where a run lies, and what its programs need to reach it. */
interface Place {
  output: string;
  /** Its folder on this disk. */
  path: string;
  environment: Record<string, string>;
}

/**
 * From the start of the first worker to the end of the last one: 16 processes share a run of tasks
 * of 1 s; one of them is ten times slower, and two are killed. The ideal is the time in which as
 * many workers of their speeds wait for as many answers. Once on this disk, and once in an object
 * store with 30 ms for each request.
 */
export async function benchJoining(setting: BenchSetting): Promise<BenchResult[]> {
  const tasks = setting.isSmall ? 64 : 2400;
  mkdirSync(folder, { recursive: true });
  const input = join(folder, "rows.jsonl");
  const lines = Array.from({ length: tasks * rowsPerTask }, (_, row) => `{"text":"row ${row}"}\n`);
  writeFileSync(input, lines.join(""));
  const path = join(folder, "out");
  const local: Place = { output: path, path, environment: {} };
  const results = [await measured(setting, "this disk", tasks, local)];
  if (missingS3Server !== undefined) {
    console.log(`joining: no object store, ${missingS3Server}`);
    return results;
  }
  const server = await S3Server.start();
  const proxy = await S3Proxy.start({ server: server.address, latencyMs: storeLatencyMs });
  try {
    const far: Place = {
      output: server.location("out"),
      path: join(server.directory, bucket, "out"),
      environment: { ...server.environment, AWS_ENDPOINT_URL_S3: proxy.address },
    };
    const name = `a store with ${storeLatencyMs} ms a request`;
    return [...results, await measured(setting, name, tasks, far)];
  } finally {
    await proxy.stop();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measured(
  setting: BenchSetting,
  name: string,
  tasks: number,
  place: Place,
): Promise<BenchResult> {
  const figures = await inTurn(`joining, ${name}`, setting.rounds, {
    seconds: () => joinedRun(setting, tasks, place),
  });
  const value = median(figures.seconds);
  const baseline = idealSeconds(tasks);
  return {
    name: `16 joining workers, one slow, two killed, ${name}; ideal`,
    ...{ value, unit: "s", baseline, ratio: baseline / value, goal },
  };
}

/** Workers that stay, in speeds of one. */
const speed = workers - killed.length - slowed.length + slowed.length / 10;

const workSeconds = (tasks: number) => (tasks * rowsPerTask * requestMs) / 1000;

const killAfterSeconds = (tasks: number) => workSeconds(tasks) / speed / 5;

/** Time for all tasks, if no worker ever waits. */
function idealSeconds(tasks: number): number {
  return (workSeconds(tasks) - killed.length * killAfterSeconds(tasks)) / speed;
}

/** Seconds from the first start to the last end. */
async function joinedRun(
  setting: BenchSetting,
  tasks: number,
  { output, path, environment: own }: Place,
): Promise<number> {
  const environment = { SLUICE_HOME: join(folder, "home"), ...own };
  const countFile = join(folder, "requests.txt");
  rmSync(countFile, { force: true });
  rmSync(path, { recursive: true, force: true });
  const model = ["--model", "fake", "--model.latencyMs", `${requestMs}`, "--model.capacity", "1"];
  const job = ["--input", join(folder, "rows.jsonl"), "--prompt", "{{ text }}", ...model];
  const rest = ["--model.countFile", countFile, "--shard.rows", `${rowsPerTask}`];
  const write = ["--output", output, "--write"];
  await runSluice(setting, ["plan", ...job, ...rest, ...write], { environment });
  const program = join(setting.packageDirectory, "bin/sluice.cjs");
  const startedMs = performance.now();
  const processes = Array.from({ length: workers }, (_, share) =>
    spawn(process.execPath, [program, "worker", output, "--share", `${share}/${workers}`], {
      env: { ...process.env, ...environment },
      detached: true,
      stdio: ["ignore", "ignore", "pipe"],
    }),
  );
  const ends = processes.map((it) => once(it, "close"));
  const timers = disturb(processes, tasks);
  await Promise.all(ends.filter((_, share) => !killed.includes(share)));
  const seconds = (performance.now() - startedMs) / 1000;
  timers.stop();
  await assertOnce(setting, output, environment, tasks);
  const requests = readFileSync(countFile, "utf8").trim().split("\n").length;
  console.log(`  ${seconds.toFixed(1)} s, ${requests} requests for ${tasks * rowsPerTask} rows`);
  return seconds;
}

/** Slows some workers down, and kills others after a while. */
function disturb(processes: readonly ChildProcess[], tasks: number): { stop(): void } {
  const signal = (share: number, name: NodeJS.Signals) => {
    const { pid, exitCode, signalCode } = processes[share]!;
    if (exitCode === null && signalCode === null) process.kill(-pid!, name);
  };
  let tenth = 0;
  const slowing = setInterval(() => {
    const isAwake = tenth++ % 10 === 9;
    for (const share of slowed) signal(share, isAwake ? "SIGCONT" : "SIGSTOP");
  }, tenthMs);
  const killing = setTimeout(() => {
    for (const share of killed) signal(share, "SIGKILL");
  }, killAfterSeconds(tasks) * 1000);
  return {
    stop() {
      clearInterval(slowing);
      clearTimeout(killing);
      for (const share of slowed) signal(share, "SIGCONT");
    },
  };
}

async function assertOnce(
  setting: BenchSetting,
  output: string,
  environment: Record<string, string>,
  tasks: number,
): Promise<void> {
  const { stdout } = await runSluice(setting, ["verify", output], { environment });
  if (stdout.includes("every row accounted for")) return;
  throw new Error(`a run of ${tasks} tasks is not whole: ${stdout}`);
}
