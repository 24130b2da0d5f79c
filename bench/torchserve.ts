import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../test/free-ports.ts";
import { findTorchPython } from "../test/integration/torch-python.ts";
import { findPeer } from "./peers.ts";
import { runSluice } from "./program.ts";
import { type ServerProcess, startAtPort } from "./server.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const workers = 2;
const batchSize = 16;
const folder = join(dataDirectory, "torchserve");
const store = join(folder, "store");

const handler = `
ANSWER = {"role": "assistant", "content": "amber anchor apple", "refusal": None}


def handle(data, context):
    if data is None:
        return None
    return [{"choices": [{"index": 0, "message": ANSWER}]} for _ in data]
`;

/** Quieter than its own, which writes a line for each request. */
const errorLog = `<Configuration>
  <Appenders><Console name="console"/></Appenders>
  <Loggers><Root level="error"><AppenderRef ref="console"/></Root></Loggers>
</Configuration>
`;

/** TorchServe as `npm run peers -- torchserve` installed it. */
export interface TorchServe {
  python: string;
  library: string;
}

/** Or why it cannot run here. */
export function findTorchServe(): TorchServe | { missing: string } {
  const library = findPeer("torchserve");
  if (library === undefined) return { missing: "run npm run peers -- torchserve first" };
  if (spawnSync("java", ["-version"]).status !== 0) return { missing: "there is no Java" };
  const found = findTorchPython();
  return found.missing === undefined ? { python: found.python, library } : found;
}

export interface TorchServeSetting {
  /** Longest wait of a worker for a batch to fill, in milliseconds. */
  maxBatchDelay: number;
  /** Whether it logs each request, as by default. */
  isLogging: boolean;
}

/** Makes the archive of a model without work. */
export async function makeArchive(setting: BenchSetting): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(store, { recursive: true });
  const file = join(folder, "bench.py");
  writeFileSync(file, handler);
  const names = ["--model-name", "bench", "--handler", file, "--export-path", store];
  await runSluice(setting, ["archive", ...names]);
}

/** What makes Sluice serve that archive by as many workers, in batches as large. */
export function archiveKeys(python: string): object {
  const models = { bench: { minWorkers: workers, maxWorkers: workers, batchSize } };
  const load = { bench: "bench.mar" };
  return { models: {}, archives: { python, modelStore: store, load, models } };
}

/** Serves the archive in batches. */
export async function startTorchServe(
  { python, library }: TorchServe,
  { maxBatchDelay, isLogging }: TorchServeSetting,
): Promise<ServerProcess> {
  const config = join(folder, "config.properties");
  // Java would find a log4j2.xml in this folder by itself.
  const log = join(folder, "error-log.xml");
  writeFileSync(log, errorLog);
  const others = [
    ...["management_address=http://127.0.0.1:", "metrics_address=http://127.0.0.1:"],
    ...["grpc_inference_port=", "grpc_management_port="],
  ];
  const lines: string[] = [];
  for (const key of others) lines.push(`${key}${await freePort()}`);
  const served = { marName: "bench.mar", minWorkers: workers, maxWorkers: workers };
  const bench = { ...served, defaultVersion: true, batchSize, maxBatchDelay, responseTimeout: 120 };
  return startAtPort({
    program: python,
    argsAt(port) {
      const models = `models=${JSON.stringify({ bench: { "1.0": bench } })}`;
      const whole = [`inference_address=http://127.0.0.1:${port}`, ...lines, models, ""];
      writeFileSync(config, whole.join("\n"));
      return [
        ...["-m", "ts.model_server", "--start", "--foreground", "--ncs", "--disable-token-auth"],
        ...["--model-store", store, "--models", "bench=bench.mar", "--ts-config", config],
        ...(isLogging ? [] : ["--log-config", log]),
      ];
    },
    // The file that names its process is there, and a killed one leaves it.
    environment: { PYTHONPATH: library, TMPDIR: folder },
    cwd: folder,
    readyPath: "/predictions/bench",
  });
}
