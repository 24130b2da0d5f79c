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
  const asked = description.devices?.(model);
  const takesFirst = asked !== undefined && asked.devices === undefined && !spreadsOverDevices;
  if (count === undefined && !takesFirst) {
    // One copy sees the whole machine, or the GPUs that its model names.
    return new Workers(() => openEngine(model, context), context.clock, keepsPrefixes);
  }
  const coresOfEach = Math.max(1, Math.floor(cores / (count ?? 1)));
  const own = (count !== undefined && sharedAmong?.(model, count, coresOfEach)) || model;
  const start = async () => {
    const { environment, release } = await devices.lease({ model, workers: {}, env: {} });
    try {
      const shown = { ...context.environment, ...environment };
      return new LeasingEngine(await openEngine(own, { ...context, environment: shown }), release);
    } catch (error) {
      release();
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
