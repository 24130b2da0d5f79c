import { type RunTracing, runWith } from "../../api/run.ts";
import { samplingTemperature } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { RunSummary } from "../../run/status/events.ts";
import { type Batch, batchPaths } from "./batch.ts";

/** The variable by which workers get the token of the server's batches. */
export const tokenVariable = "SLUICE_BATCH_TOKEN";

/** Longest time of one row: it may wait behind online requests until its batch is stopped. */
export const rowTimeoutMs = 2 * 86_400_000;

export interface BatchRunOptions {
  /** Absolute path or address of the data directory. */
  dataDirectory: string;
  /** Address that answers the rows of this batch, up to and including `/v1`. */
  baseUrl: string;
  token: string;
  /** Requests that the model computes at once. */
  slots: number;
  environment: Readonly<Record<string, string | undefined>>;
  logger: Logger;
  signal: AbortSignal;
  tracing: RunTracing | undefined;
}

/**
 * Carries out the rows of a batch as a run of its own, or continues it: a worker process sends them
 * to this very server.
 *
 * @throws SluiceError why the run is not sealed; the same call continues it.
 */
export async function runBatch(batch: Batch, options: BatchRunOptions): Promise<RunSummary> {
  const { dataDirectory, baseUrl, token, slots, environment, logger, signal } = options;
  const { tracing } = options;
  const { input, output, failed } = batchPaths(batch.id);
  const at = (path: string) => `${dataDirectory}/${path}`;
  const { error, summary } = await runWith(
    {
      name: batch.id,
      input: { path: at(input), format: "openai-batch" },
      model: {
        ...{ engine: "openai", name: batch.object.model ?? "", baseUrl },
        apiKeyEnv: tokenVariable,
        // Twice as many, so that the next ones wait at the model's door while answers travel.
        maxInFlight: Math.min(limits.maxInFlight, 2 * slots),
        timeoutMs: rowTimeoutMs,
      },
      // What a line leaves open is as for online requests.
      generation: { temperature: samplingTemperature, ...batch.record.generation },
      output: { path: at(output), format: "openai-batch", errorFile: at(failed) },
      workers: { max: 1 },
    },
    {
      environment: withoutProxy({ ...environment, [tokenVariable]: token }),
      ...{ install: false, logger, signal },
    },
    [],
    tracing,
  );
  if (error) throw error;
  return summary;
}

/** Rows stay on this machine, whatever proxy it has. */
function withoutProxy(environment: BatchRunOptions["environment"]) {
  const { NO_PROXY = "", no_proxy: lower = NO_PROXY } = environment;
  const hosts = [lower, "127.0.0.1"].filter(Boolean).join(",");
  return { ...environment, NO_PROXY: hosts, no_proxy: hosts };
}
