import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { availableParallelism, cpus } from "node:os";
import { dirname, join } from "node:path";
import { asSluiceError, SluiceError } from "../foundation/errors.ts";
import { sortableId } from "../foundation/ids.ts";
import { greedyParameters, type InferenceRequest } from "../foundation/inference.ts";
import { jsonObjectIn } from "../foundation/json.ts";
import type { Engine, EngineContext } from "./engine.ts";
import { type ModelOptions, modelOptions } from "./model-options.ts";
import { prepareEngine } from "./prepare-engine.ts";
import { openEngine } from "./registry.ts";

/** Engines that compute the same GGUF files on this machine. */
export const comparableEngines = ["llama", "openvino"] as const;
export type ComparableEngine = (typeof comparableEngines)[number];

/** What `sluice engine measure` found of one engine. */
export interface EngineSpeed {
  engine: ComparableEngine;
  /** Seconds from the start of the engine to its first answer. */
  loadSeconds: number;
  /** Tokens of answers a second, many requests at once. */
  tokensPerSecond: number;
}

/** A measurement of this machine, kept in `SLUICE_HOME/engine-speed.json`. */
export interface EngineMeasurement {
  format: 1;
  measuredAt: string;
  machine: string;
  model: string;
  speeds: readonly EngineSpeed[];
  /** Why the others were not measured. */
  refused: readonly { engine: ComparableEngine; reason: string }[];
}

export interface SpeedOptions {
  /** A catalog name or the path of a GGUF file. */
  model: string;
  /** Requests that are sent at once. */
  requests: number;
  /** Fetch packages and the model. */
  install: boolean;
  signal: AbortSignal;
  onEngine?(engine: ComparableEngine): void;
}

/** Tokens of each answer that is measured. */
const answerTokens = 32;

/**
 * Measures each engine that can compute a model here, one after the other: chats with a common
 * beginning and a greedy answer of 32 tokens each, sent at once. Keeps the result for `plan` and
 * `doctor`.
 *
 * @param open opens an engine that was prepared.
 * @throws SluiceError the first engine's refusal if none can run the model; the signal's reason.
 */
export async function measureEngines(
  context: EngineContext,
  options: SpeedOptions,
  open: (model: ModelOptions, context: EngineContext) => Promise<Engine> = prepared(options),
): Promise<EngineMeasurement> {
  const speeds: EngineSpeed[] = [];
  const refusals: { engine: ComparableEngine; error: SluiceError }[] = [];
  for (const engine of comparableEngines) {
    options.onEngine?.(engine);
    try {
      speeds.push(await speedOf(engine, context, options, open));
    } catch (error) {
      options.signal.throwIfAborted();
      refusals.push({ engine, error: asSluiceError(error) });
    }
  }
  if (speeds.length === 0) throw refusals[0]!.error;
  const measurement: EngineMeasurement = {
    format: 1,
    measuredAt: new Date(context.clock.now()).toISOString(),
    machine: machineName(),
    model: options.model,
    speeds,
    refused: refusals.map(({ engine, error }) => ({ engine, reason: error.message })),
  };
  await store(measurement, context);
  return measurement;
}

const prepared =
  ({ install, signal }: SpeedOptions) =>
  async (model: ModelOptions, context: EngineContext): Promise<Engine> => {
    await prepareEngine(model, { ...context, signal }, { install });
    return openEngine(model, context);
  };

async function speedOf(
  name: ComparableEngine,
  context: EngineContext,
  { model, requests, signal }: SpeedOptions,
  open: (model: ModelOptions, context: EngineContext) => Promise<Engine>,
): Promise<EngineSpeed> {
  const { clock } = context;
  const asked = modelOptions.parse({ engine: name, name: model, contextTokens: 1024 });
  const startedMs = clock.monotonic();
  const engine = await open(asked, context);
  try {
    await engine.infer(requestOf(requests, 1), signal);
    const loadedMs = clock.monotonic();
    let next = 0;
    let tokens = 0;
    const sendOnAndOn = async () => {
      while (next < requests) {
        const { usage } = await engine.infer(requestOf(next++, answerTokens), signal);
        tokens += usage.completionTokens;
      }
    };
    await Promise.all(Array.from({ length: Math.min(engine.capacity, requests) }, sendOnAndOn));
    return {
      engine: name,
      loadSeconds: (loadedMs - startedMs) / 1000,
      tokensPerSecond: (tokens * 1000) / (clock.monotonic() - loadedMs),
    };
  } finally {
    await engine.close();
  }
}

const words = ["garden", "river", "stone", "lantern", "harbor", "meadow", "bridge"];

function requestOf(index: number, maxNewTokens: number): InferenceRequest {
  const [thing, place] = [words[index % 7], words[(index * 3 + 1) % 7]];
  const walk = `On day ${index} we walked from the ${thing} to the ${place} and back. `;
  return {
    messages: [
      { role: "system", content: `You write about walks. ${"Be exact and brief. ".repeat(12)}` },
      { role: "user", content: `${walk.repeat(1 + (index % 4))}What did we see?` },
    ],
    parameters: { ...greedyParameters, maxNewTokens, seed: 0, ignoreEos: true },
  };
}

/** The processor and its cores: a measurement counts on the same kind of machine alone. */
function machineName(): string {
  return `${cpus()[0]?.model.trim() ?? "unknown"}, ${availableParallelism()} cores`;
}

const fileOf = ({ homeDirectory }: Pick<EngineContext, "homeDirectory">) =>
  join(homeDirectory, "engine-speed.json");

async function store(measurement: EngineMeasurement, context: EngineContext): Promise<void> {
  const file = fileOf(context);
  const temporary = `${file}.tmp-${sortableId(context.clock, context.random)}`;
  try {
    await mkdir(dirname(file), { recursive: true });
    await writeFile(temporary, `${JSON.stringify(measurement, null, 1)}\n`);
    await rename(temporary, file);
  } catch (cause) {
    throw new SluiceError("STORE_FAILED", (cause as Error).message, { file, cause });
  }
}

/** The last measurement of this kind of machine; undefined if there is none. */
export async function lastMeasurement(
  context: Pick<EngineContext, "homeDirectory">,
): Promise<EngineMeasurement | undefined> {
  const text = await readFile(fileOf(context), "utf8").catch(() => undefined);
  // A damaged file counts as none: the next measurement replaces it.
  const read = text === undefined ? undefined : jsonObjectIn(text);
  if (read?.format !== 1) return undefined;
  const measurement = read as unknown as EngineMeasurement;
  return measurement.machine === machineName() ? measurement : undefined;
}

/** An engine has to be so much faster to be worth a change. */
const leastRatio = 1.1;

/** The fastest engine of a measurement, if it is clearly faster than `than`. */
export function fasterEngine(
  { speeds }: EngineMeasurement,
  than: string,
): { engine: ComparableEngine; ratio: number } | undefined {
  const own = speeds.find(({ engine }) => engine === than);
  const [best] = [...speeds].sort((a, b) => b.tokensPerSecond - a.tokensPerSecond);
  if (!own || !best) return undefined;
  const ratio = best.tokensPerSecond / own.tokensPerSecond;
  return ratio >= leastRatio ? { engine: best.engine, ratio } : undefined;
}
