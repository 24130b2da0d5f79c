import type { DeviceShares } from "../backends/registry.ts";
import type { EngineContext } from "../engines/engine.ts";
import { describeEngine, openEngine } from "../engines/registry.ts";
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
  const { forOnline, sharedAmong, keepsPrefixes } = describeEngine(given);
  const model = forOnline?.(given) ?? given;
  if (count === undefined) {
    return new Workers(() => openEngine(model, context), context.clock, keepsPrefixes);
  }
  const own = sharedAmong?.(model, count, Math.max(1, Math.floor(cores / count))) ?? model;
  const start = async (place: number) => {
    const shown = await devices.environmentFor({ model, workers: {}, env: {} }, place);
    return openEngine(own, { ...context, environment: { ...context.environment, ...shown } });
  };
  return new Workers(start, context.clock, keepsPrefixes);
}
