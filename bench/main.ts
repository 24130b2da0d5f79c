import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { benchAdaptive } from "./adaptive.ts";
import { benchBatching } from "./batching.ts";
import { benchCsv } from "./csv.ts";
import { benchEmbeddings } from "./embeddings.ts";
import { benchHttp } from "./http.ts";
import { installPackage } from "./installed-package.ts";
import { benchJoining } from "./joining.ts";
import { benchLatency } from "./latency.ts";
import { benchLlama } from "./llama.ts";
import { benchLlamaServer } from "./llama-server.ts";
import { benchNoop } from "./noop.ts";
import { benchOpenai } from "./openai.ts";
import { benchOpenvino } from "./openvino.ts";
import { benchOverlap } from "./overlap.ts";
import { benchParquet } from "./parquet.ts";
import { benchPrefix } from "./prefix.ts";
import { benchRay, benchRayHosts } from "./ray.ts";
import { benchRefusals } from "./refusals.ts";
import type { BenchResult } from "./result.ts";
import { benchResume } from "./resume.ts";
import { benchS3 } from "./s3.ts";
import { benchServe, benchServeLlama } from "./serve.ts";
import { benchServeArrivals } from "./serve-arrivals.ts";
import { benchServePeers } from "./serve-peers.ts";
import type { BenchSetting } from "./setting.ts";
import { benchStart } from "./start.ts";
import { benchStructure } from "./structure.ts";
import { resultsTable, withResults } from "./table.ts";
import { benchVllm } from "./vllm.ts";

const benchmarks: Record<string, (setting: BenchSetting) => Promise<BenchResult[]>> = {
  noop: benchNoop,
  parquet: benchParquet,
  csv: benchCsv,
  s3: benchS3,
  latency: benchLatency,
  http: benchHttp,
  openai: benchOpenai,
  adaptive: benchAdaptive,
  refusals: benchRefusals,
  start: benchStart,
  resume: benchResume,
  llama: benchLlama,
  "llama-server": benchLlamaServer,
  openvino: benchOpenvino,
  vllm: benchVllm,
  prefix: benchPrefix,
  structure: benchStructure,
  batching: benchBatching,
  overlap: benchOverlap,
  embeddings: benchEmbeddings,
  joining: benchJoining,
  ray: benchRay,
  "ray-hosts": benchRayHosts,
  serve: benchServe,
  "serve-llama": benchServeLlama,
  "serve-peers": benchServePeers,
  "serve-arrivals": benchServeArrivals,
};

const usage = `npm run bench -- [NAME …] [options]
  names: ${Object.keys(benchmarks).join(" ")}; default: all
  --write     put the results into the table of bench/README.md
  --rounds N  measurements of each figure, of which the median counts; default 3
  --large     noop with 10 million rows, parquet with 2 GB, once
  --small     loads so small that the figures mean nothing, to try the benchmarks themselves
  --no-build  take the package that an earlier call built`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    write: { type: "boolean", default: false },
    rounds: { type: "string", default: "3" },
    large: { type: "boolean", default: false },
    small: { type: "boolean", default: false },
    "no-build": { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

async function main(): Promise<void> {
  const unknown = positionals.filter((name) => !Object.hasOwn(benchmarks, name));
  const rounds = Number(values.rounds);
  if (values.help || unknown.length > 0 || !Number.isInteger(rounds) || rounds < 1) {
    console.error(unknown.length > 0 ? `unknown: ${unknown.join(" ")}\n${usage}` : usage);
    process.exitCode = values.help ? 0 : 64;
    return;
  }
  const setting: BenchSetting = {
    packageDirectory: installPackage(values["no-build"]),
    rounds,
    isLarge: values.large,
    isSmall: values.small,
  };
  const results: BenchResult[] = [];
  for (const name of positionals.length > 0 ? positionals : Object.keys(benchmarks)) {
    const found = await benchmarks[name]!(setting);
    // Shown at once: a later one may fail.
    console.log(resultsTable(found));
    results.push(...found);
  }
  console.log(`${resultsTable(results)}\n\n${circumstances()}`);
  // Figures of tiny loads would mislead whoever reads them later.
  if (values.write && !values.small) writeResults(results);
}

/** When, where and how the results came about. */
function circumstances(): string {
  const memory = `${Math.round(totalmem() / 1024 ** 3)} GB`;
  const machine = `${availableParallelism()} cores, ${memory} of memory, ${process.platform}`;
  const args = process.argv.slice(2).filter((arg) => arg !== "--write");
  const command = ["npm run bench", ...(args.length > 0 ? ["--", ...args] : [])].join(" ");
  const date = new Date().toISOString().slice(0, 10);
  return `${date}, Sluice at ${revision()}, ${machine}, Node ${process.versions.node}: \`${command}\``;
}

function revision(): string {
  try {
    const options = { encoding: "utf8", cwd: import.meta.dirname } as const;
    return execFileSync("git", ["describe", "--always", "--dirty"], options).trim();
  } catch {
    return "no known revision";
  }
}

function writeResults(results: readonly BenchResult[]): void {
  const file = join(import.meta.dirname, "README.md");
  const readme = readFileSync(file, "utf8");
  const between = /(<!-- results -->\n)([\s\S]*)(<!-- end of results -->)/;
  if (!between.test(readme)) throw new Error("bench/README.md lacks its markers");
  const merged = (before: string) => withResults(before, results, circumstances());
  writeFileSync(
    file,
    readme.replace(between, (_, begin, before, end) => `${begin}\n${merged(before)}\n\n${end}`),
  );
}

await main();
