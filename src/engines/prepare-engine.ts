import type { PrepareOptions } from "./engine-description.ts";
import type { ModelOptions } from "./model-options.ts";
import type { PackageContext } from "./packages/packages.ts";
import { describeEngine } from "./registry.ts";

/**
 * Makes sure that what an engine needs is on this machine, before workers start: its package and
 * its model. Engines without either are ready as they are.
 *
 * @throws SluiceError `ENGINE_MISSING` or `MODEL_MISSING` where `install` is false, else what
 *   fetching throws.
 */
export async function prepareEngine(
  model: ModelOptions,
  context: PackageContext,
  options: PrepareOptions,
): Promise<void> {
  await describeEngine(model).prepare?.(model, context, options);
}

/**
 * Refuses, before a run is planned, an engine or a model that cannot be had: a run keeps the name
 * of its model, so that a wrong one had better not get that far. Fetches nothing.
 *
 * @param context with the environment that workers will have.
 * @param install whether what is not here will be fetched.
 * @throws SluiceError `MODEL_UNKNOWN`, `UNSUPPORTED`; `ENV_MISSING` where the variable that holds
 *   the API key is not set; of a path `MODEL_UNREADABLE`,
 *   `MODEL_CORRUPT`; where `install` is false `ENGINE_MISSING` and `MODEL_MISSING`.
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
