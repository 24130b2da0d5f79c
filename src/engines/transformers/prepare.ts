import { SluiceError } from "../../foundation/errors.ts";
import { type PrepareOptions, preparePackage } from "../engine-description.ts";
import type { PackageContext } from "../packages/packages.ts";
import { isModelHere, openTransformersFrom } from "./engine.ts";
import { assertOnnxFolder, parseOnnxModelName } from "./model-place.ts";
import type { TransformersModelOptions } from "./options.ts";

/**
 * Puts the package and the model on this machine. The package of transformers.js fetches a model of
 * the hub when it loads it, so it is loaded once.
 *
 * @throws SluiceError `ENGINE_MISSING` and `MODEL_MISSING` if `install` is false, else errors of
 *   opening the engine.
 */
export async function prepareTransformers(
  options: TransformersModelOptions,
  context: PackageContext,
  prepare: PrepareOptions,
): Promise<void> {
  const { entry } = await preparePackage("transformers", context, prepare);
  const model = parseOnnxModelName(options.name, context.workingDirectory);
  if (model.kind === "folder") return assertOnnxFolder(model.path);
  if (await isModelHere(options, context)) return;
  const { install, onProgress, onWait } = prepare;
  if (!install) {
    const hint = "run it once without --no-install";
    throw new SluiceError("MODEL_MISSING", options.name, { hint });
  }
  // Without a host, the first worker fetches it.
  const { hostCommand } = context;
  if (hostCommand === undefined) return;
  onProgress?.({ name: options.name, source: "hub", bytes: 0 });
  const wait = () => onWait?.(options.name);
  const engine = await openTransformersFrom(options, entry, { ...context, hostCommand }, wait);
  await engine.close();
}
