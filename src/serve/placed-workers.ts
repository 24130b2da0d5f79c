import type { DeviceShares } from "../backends/registry.ts";
import type { Engine, EngineContext } from "../engines/engine.ts";
import { describeEngine, openEngine } from "../engines/registry.ts";
import { WrappedEngine } from "../engines/wrapped-engine.ts";
import type { InferenceRequest, InferenceResponse, OnDelta } from "../foundation/inference.ts";
import type { ServedModelOptions } from "./options.ts";
import { Workers } from "./workers.ts";

/** What the copies of models share. */
export interface SharedResources {
  cores: number;
  devices: DeviceShares;
}

/** The copies of a model, none of which is loaded yet: each with its share of the machine. */
export function placedWorkers(
  { model: given, workers: count }: Pick<ServedModelOptions, "model" | "workers">,
  { cores, devices }: SharedResources,
  context: EngineContext,
): Workers {
  const description = describeEngine(given);
  const { forOnline, sharedAmong, keepsPrefixes, spreadsOverDevices } = description;
  const model = forOnline?.(given) ?? given;
  const isOnly = count === undefined;
  const named = description.devices?.(model)?.devices;
  if (isOnly && named !== undefined && !spreadsOverDevices) {
    // It divides those that it names among its replicas.
    const gpus = named.map(String);
    const start = async () => ({ engine: await openEngine(model, context), gpus });
    return new Workers(start, context.clock, keepsPrefixes);
  }
  const coresOfEach = Math.max(1, Math.floor(cores / (count ?? 1)));
  const own = (!isOnly && sharedAmong?.(model, count, coresOfEach)) || model;
  const takesAll = isOnly && spreadsOverDevices === true;
  const start = async () => {
    const lease = await devices.lease({ model, workers: {}, env: {}, takesAll });
    for (const notice of lease.notices) context.logger.log("warn", notice);
    try {
      const environment = { ...context.environment, ...lease.environment };
      const opened = await openEngine(own, { ...context, environment });
      const isOnCpu = opened.choices?.gpu === false || opened.choices?.gpuLayers === 0;
      const engine = new LeasingEngine(opened, lease.release);
      return { engine, gpus: isOnCpu ? [] : lease.devices.map(({ id }) => id) };
    } catch (error) {
      lease.release();
      throw error;
    }
  };
  return new Workers(start, context.clock, keepsPrefixes);
}

/** An engine that gives its devices back when it is closed. */
class LeasingEngine extends WrappedEngine {
  readonly #release: () => void;

  constructor(inner: Engine, release: () => void) {
    super(inner);
    this.#release = release;
  }

  infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse> {
    return this.inner.infer(request, signal, onDelta);
  }

  override async close(): Promise<void> {
    await super.close().finally(this.#release);
  }
}
