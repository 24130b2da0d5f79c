import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { missingCluster, RayCluster } from "../test/ray-cluster.ts";
import { shortRows } from "./loads.ts";
import { findPeer } from "./peers.ts";
import { runSluice, settleDisk } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { startServer } from "./server.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const folder = join(dataDirectory, "ray");
const output = join(folder, "out");
const processorTimes = join(folder, "processor-times.txt");
const processorHook = join(import.meta.dirname, "processor-time.cjs");
const delayMs = 100;
/** Of the cluster of one process. */
const hosts = 100;

/** A cluster, and who works on it. */
interface Contest {
  setting: BenchSetting;
  cluster: RayCluster;
  python: string;
}

/**
 * Sluice and Ray Data, each as a whole program with its start, on one running cluster of three
 * nodes. Ray Data has the settings that were fastest here. Empty if the peer is missing.
 */
export async function benchRay(setting: BenchSetting): Promise<BenchResult[]> {
  const peer = findPeer("ray-data");
  if (peer === undefined || missingCluster !== undefined) {
    console.log(`ray: skipped, ${missingCluster ?? "run npm run peers -- ray-data first"}`);
    return [];
  }
  mkdirSync(folder, { recursive: true });
  const python = join(peer, "environment/bin/python");
  const size = { cpus: 8 };
  const cluster = await RayCluster.start([{ cpus: 1 }, size, size], {}, python);
  try {
    const contest = { setting, cluster, python };
    return [
      ...(await latency(contest)),
      ...(await http(contest)),
      ...(await noop(contest)),
      ...(await tasks(contest)),
    ];
  } finally {
    await cluster.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function latency(contest: Contest): Promise<BenchResult[]> {
  const rows = contest.setting.isSmall ? 40 : 400;
  const input = shortRows(rows);
  const model = ["--model", "fake", "--model.latencyMs", "50", "--model.capacity", "1"];
  const figures = await inTurn("ray, latency", contest.setting.rounds, {
    sluice: () => throughSluice(contest, input, [...model, "--workers.max", "4"]),
    data: () => throughRay(contest, "latency", input, rows),
  });
  const name = `ray, ${rows} rows × 50 ms, 4 workers; Ray Data`;
  return [{ ...compare(name, figures.sluice, figures.data), atMost: 6 }];
}

async function http(contest: Contest): Promise<BenchResult[]> {
  const rows = contest.setting.isSmall ? 128 : 512;
  const input = shortRows(rows);
  const { packageDirectory, rounds } = contest.setting;
  const main = join(packageDirectory, "dist/testing/fake-server-main.js");
  const server = await startServer([main, "--delay-ms", String(delayMs)]);
  try {
    const url = `${server.baseUrl}/chat/completions`;
    const model = ["--model", "openai:bench", "--base-url", server.baseUrl];
    const width = ["--model.maxInFlight", "64", "--workers.max", "1"];
    const figures = await inTurn("ray, http", rounds, {
      sluice: () => throughSluice(contest, input, [...model, ...width]),
      processor: () => throughRay(contest, "processor", input, rows, url),
      actor: () => throughRay(contest, "actor", input, rows, url),
    });
    const name = `ray, ${rows} rows × ${delayMs} ms over HTTP`;
    const { sluice, processor, actor } = figures;
    return [
      { ...compare(`${name}; Ray Data's processor`, sluice, processor), goal: 4 },
      compare(`${name}; an async actor by hand`, sluice, actor),
    ];
  } finally {
    await server.stop();
  }
}

async function noop(contest: Contest): Promise<BenchResult[]> {
  const rows = contest.setting.isSmall ? 20_000 : 1_000_000;
  const input = shortRows(rows);
  const figures = await inTurn("ray, noop", contest.setting.rounds, {
    sluice: () => throughSluice(contest, input, ["--model", "fake", "--workers.max", "2"]),
    data: () => throughRay(contest, "noop", input, rows),
  });
  const name = `ray, ${rows / 1e6}M rows; Ray Data`;
  return [{ ...compare(name, figures.sluice, figures.data), goal: 2 }];
}

async function tasks(contest: Contest): Promise<BenchResult[]> {
  const rows = contest.setting.isSmall ? 200 : 10_000;
  const input = shortRows(rows);
  const model = ["--model", "fake", "--workers.max", "2", "--shard.rows", "1"];
  const figures = await inTurn("ray, tasks", contest.setting.rounds, {
    sluice: () => throughSluice(contest, input, model),
    tasks: () => throughRay(contest, "tasks", input, rows),
  });
  const each = (seconds: readonly number[]) => (median(seconds) / rows) * 1000;
  const [value, baseline] = [each(figures.sluice), each(figures.tasks)];
  const name = `ray, a task of one row, of ${rows}; tasks of Ray alone`;
  return [{ name, unit: "ms", value, baseline, ratio: baseline / value }];
}

/**
 * Processor time of the coordinator for a task of one row, with a hundred hosts, plan and seal
 * included. Needs no Ray: workers and all stand in one process in the place of the bridge.
 */
export async function benchRayHosts(setting: BenchSetting): Promise<BenchResult[]> {
  mkdirSync(folder, { recursive: true });
  const [few, many] = setting.isSmall ? [10, 200] : [100, 10_000];
  const bridge = join(folder, "bridge");
  const program = join(import.meta.dirname, "ray-hosts.ts");
  const script = `#!/bin/sh\nunset NODE_OPTIONS\nexec "${process.execPath}" "${program}"\n`;
  writeFileSync(bridge, script, { mode: 0o755 });
  const ray = ["--backend", "ray", "--ray.python", bridge, "--ray.shared=true"];
  const wide = [...ray, "--workers.max", String(hosts)];
  const eachMs = async (where: readonly string[]) => {
    const of = (rows: number) => processorSeconds(setting, rows, where);
    return (((await of(many)) - (await of(few))) / (many - few)) * 1000;
  };
  const figures = await inTurn("ray-hosts", setting.rounds, {
    wide: () => eachMs(wide),
    local: () => eachMs(["--workers.max", "2"]),
  });
  rmSync(folder, { recursive: true, force: true });
  const [value, baseline] = [median(figures.wide), median(figures.local)];
  const name = `ray, ${hosts} hosts, coordinator's processor time a task; 2 local workers`;
  return [{ name, unit: "ms", value, baseline, ratio: baseline / value }];
}

async function processorSeconds(
  setting: BenchSetting,
  rows: number,
  where: readonly string[],
): Promise<number> {
  rmSync(processorTimes, { force: true });
  rmSync(output, { recursive: true, force: true });
  settleDisk();
  const job = ["--input", shortRows(rows), "--model", "fake", "--prompt", "{{ text }}"];
  const rest = ["--shard.rows", "1", "--output", output, "--quiet"];
  const environment = {
    NODE_OPTIONS: `--require ${JSON.stringify(processorHook)}`,
    PROCESSOR_TIME: processorTimes,
    BENCH_RAY_HOSTS: String(hosts),
  };
  await runSluice(setting, ["run", ...job, ...rest, ...where], { environment });
  // Of the processes that note theirs, the coordinator ends last.
  return Number(readFileSync(processorTimes, "utf8").trim().split("\n").at(-1));
}

const compare = (
  name: string,
  own: readonly number[],
  others: readonly number[],
): Omit<BenchResult, "goal" | "atMost"> => {
  const [value, baseline] = [median(own), median(others)];
  return { name, unit: "s", value, baseline, ratio: baseline / value };
};

/** Seconds of the whole command. */
async function throughSluice(
  { setting, cluster, python }: Contest,
  input: string,
  model: readonly string[],
): Promise<number> {
  rmSync(output, { recursive: true, force: true });
  settleDisk();
  const job = ["--input", input, ...model, "--prompt", "{{ text }}", "--output", output];
  const ray = ["--backend", "ray", "--ray.address", cluster.address, "--ray.python", python];
  const rest = ["--ray.shared=true", "--workers.cpu", "1", "--seed", "1", "--quiet"];
  return (await runSluice(setting, ["run", ...job, ...ray, ...rest])).seconds;
}

/** Seconds of the whole program, which must have written a line for each row. */
async function throughRay(
  { cluster, python }: Contest,
  way: string,
  input: string,
  rows: number,
  ...more: string[]
): Promise<number> {
  rmSync(output, { recursive: true, force: true });
  settleDisk();
  const program = join(import.meta.dirname, "ray-data.py");
  const args = [program, cluster.address, way, input, output, ...more];
  const startedMs = performance.now();
  await promisify(execFile)(python, args, { cwd: folder, maxBuffer: 2 ** 26 });
  const seconds = (performance.now() - startedMs) / 1000;
  const files = statSync(output).isFile() ? [output] : filesIn(output);
  const lines = files.map((file) => readFileSync(file, "utf8").split("\n").length - 1);
  const written = lines.reduce((sum, count) => sum + count, 0);
  if (written !== rows) throw new Error(`${way}: ${written} of ${rows} rows`);
  return seconds;
}

const filesIn = (directory: string) => readdirSync(directory).map((name) => join(directory, name));
