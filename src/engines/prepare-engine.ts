import type { ModelOptions } from "./model-options.ts";
import type { DownloadProgress } from "./models/model-context.ts";
import type { PackageContext } from "./packages/packages.ts";
import { assertEnvironment } from "./registry.ts";

export interface PrepareOptions {
  /** Whether what is not here is fetched. */
  install: boolean;
  onProgress?(progress: DownloadProgress): void;
  /** Called when another process is fetching the same, with what that is, before waiting for it. */
  onWait?(what: string): void;
}

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
  { install, onProgress, onWait }: PrepareOptions,
): Promise<void> {
  if (model.engine !== "llama") return;
  const [{ locateEnginePackage }, { resolveModel }] = await Promise.all([
    import("./packages/packages.ts"),
    import("./models/models.ts"),
  ]);
  await locateEnginePackage("llama", context, {
    install,
    onWait: () => onWait?.("the llama engine"),
    onProgress: (bytes) => onProgress?.({ name: "llama engine", source: "npm", bytes }),
  });
  await resolveModel(model.name, context, {
    download: install,
    onWait: () => onWait?.(model.name),
    onProgress: (progress) => onProgress?.(progress),
  });
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
  assertEnvironment(model, context.environment);
  if (model.engine !== "llama") return;
  if (!install) return prepareEngine(model, context, { install });
  const [{ parseModelName }, { resolveModel }] = await Promise.all([
    import("./models/model-reference.ts"),
    import("./models/models.ts"),
  ]);
  const { kind } = parseModelName(model.name, context.workingDirectory);
  if (kind === "path") await resolveModel(model.name, context, { download: false });
}
