import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { openS3Bucket } from "../src/data/s3/open.ts";
import { S3Proxy } from "../test/s3-proxy.ts";
import { bucket, missingS3Server, S3Server } from "../test/s3-server.ts";
import { shortRows } from "./loads.ts";
import { runSluice, settleDisk } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

/** Added to each request by the proxy before the store. */
const latencyMs = 20;
const folder = join(dataDirectory, "s3");
const processorTimes = join(folder, "processor-times.txt");
const processorHook = join(import.meta.dirname, "processor-time.cjs");

/** A run by the clock, and the processor time of what took part in it. */
interface Measured {
  seconds: number;
  /** All processes of the program together. */
  ownSeconds: number;
  /** The server and the proxy, which a store elsewhere would not take of this machine. */
  storeSeconds: number;
}

/**
 * Rows a second of a whole run from one object to a run directory in the same bucket, each request
 * of which takes 20 ms longer, beside the same run from disk to disk. The engine answers at once.
 * Server and proxy run on the same cores: what they and the program take is told beside it.
 */
export async function benchS3(setting: BenchSetting): Promise<BenchResult[]> {
  if (missingS3Server !== undefined) throw new Error(missingS3Server);
  const rows = setting.isSmall ? 20_000 : 1_000_000;
  const input = shortRows(rows);
  const server = await S3Server.start();
  const proxy = await S3Proxy.start({ server: server.address, latencyMs });
  try {
    const at = (name: string) => server.location(name);
    // By a request, as others do: an object that was put below a server has no ETag.
    const inputKey = "rows.jsonl";
    await openS3Bucket(at(inputKey), server.context()).put(inputKey, readFileSync(input));
    const figures = await inTurn("s3", setting.rounds, {
      local: () => run(setting, input, join(folder, "out")),
      far: async () => {
        rmSync(join(server.directory, bucket, "out"), { recursive: true, force: true });
        const environment = { ...server.environment, AWS_ENDPOINT_URL_S3: proxy.address };
        const before = storeSeconds(server);
        const measured = await run(setting, at(inputKey), at("out"), environment);
        return { ...measured, storeSeconds: storeSeconds(server) - before };
      },
    });
    return resultsOf(rows, figures.local, figures.far);
  } finally {
    await proxy.stop();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function resultsOf(
  rows: number,
  local: readonly Measured[],
  far: readonly Measured[],
): BenchResult[] {
  const of = (runs: readonly Measured[], key: keyof Measured) => median(runs.map((it) => it[key]));
  const [rate, localRate] = [rows / of(far, "seconds"), rows / of(local, "seconds")];
  const [own, localOwn] = [of(far, "ownSeconds"), of(local, "ownSeconds")];
  const store = of(far, "storeSeconds");
  const name = `${rows / 1e6}M rows S3 to S3, each request ${latencyMs} ms longer; from disk to disk`;
  return [
    { name, unit: "rows/s", value: rate, baseline: localRate, ratio: rate / localRate, goal: 0.7 },
    {
      name: "the same, processor time of Sluice; from disk to disk",
      ...{ unit: "s", value: own, baseline: localOwn, ratio: localOwn / own },
    },
    {
      name: "the same, processor time of server and proxy; of Sluice",
      ...{ unit: "s", value: store, baseline: own, ratio: own / store },
    },
  ];
}

async function run(
  setting: BenchSetting,
  input: string,
  output: string,
  environment: Record<string, string> = {},
): Promise<Measured> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  settleDisk();
  const job = ["--input", input, "--model", "fake", "--prompt", "Say more: {{ text }}"];
  const rest = ["--output", output, "--workers.max", "1", "--seed", "1", "--quiet"];
  const hook = {
    NODE_OPTIONS: `--require ${JSON.stringify(processorHook)}`,
    PROCESSOR_TIME: processorTimes,
  };
  const { seconds } = await runSluice(setting, ["run", ...job, ...rest], {
    environment: { SLUICE_HOME: join(folder, "home"), ...hook, ...environment },
  });
  const times = readFileSync(processorTimes, "utf8").trim().split("\n").map(Number);
  return { seconds, ownSeconds: times.reduce((sum, it) => sum + it, 0), storeSeconds: 0 };
}

/** Processor time so far of the server, where the system tells, and of this process: the proxy. */
function storeSeconds({ pid }: S3Server): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6 + (process.platform === "linux" ? secondsOf(pid) : 0);
}

function secondsOf(pid: number | undefined): number {
  // Behind the name, which is in brackets: the 12th and 13th field, in hundredths of a second.
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}
