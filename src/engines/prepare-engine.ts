import type { PrepareOptions } from "./engine-description.ts";
import type { ModelOptions } from "./model-options.ts";
import type { PackageContext } from "./packages/packages.ts";
import { describeEngine } from "./registry.ts";

/**
 * Makes sure that an engine's package and its model are on this machine, before workers start.
 * Engines without either are always ready.
 *
 * @throws SluiceError `ENGINE_MISSING` or `MODEL_MISSING` if `install` is false, else errors of
 *   fetching.
 */
export async function prepareEngine(
  model: ModelOptions,
  context: PackageContext,
  options: PrepareOptions,
): Promise<void> {
  await describeEngine(model).prepare?.(model, context, options);
}

/**
 * Refuses an unavailable engine or model before a run is planned, because a run keeps the name of
 * its model, even a wrong one. Fetches nothing.
 *
 * @param context with the environment of the workers.
 * @param install whether missing files will be fetched.
 * @throws SluiceError `MODEL_UNKNOWN`, `UNSUPPORTED`; `ENV_MISSING` if the variable of the API key
 *   is not set; for a path `MODEL_UNREADABLE`, `MODEL_CORRUPT`; if `install` is false,
 *   `ENGINE_MISSING` and `MODEL_MISSING`.
 */
export async function checkEngine(
  model: ModelOptions,
  context: PackageContext,
  { install }: Pick<PrepareOptions, "install">,
): Promise<void> {
  const engine = describeEngine(model);
  engine.assertEnvironment?.(model, context.environment);
  if (install) await engine.check?.(model, context);
  else await engine.prepare?.(model, context, { install });
}
