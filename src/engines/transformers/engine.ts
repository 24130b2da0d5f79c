import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { hubEndpoint, isHubOffline } from "../../foundation/hub.ts";
import type { Engine, EngineContext } from "../engine.ts";
import { type HostContext, openHostedEngine } from "../host/client.ts";
import { withFileLock } from "../models/file-lock.ts";
import { hubCache, markOf } from "../models/hub-cache.ts";
import { keptSha256 } from "../models/kept-digest.ts";
import { locateEnginePackage } from "../packages/packages.ts";
import type { HostedTransformersOptions } from "./hosted-transformers.ts";
import { assertOnnxFolder, exists, parseOnnxModelName } from "./model-place.ts";
import type { TransformersModelOptions } from "./options.ts";

/** What opening needs of the outside world. */
type OpenContext = HostContext & Pick<EngineContext, "homeDirectory">;

/**
 * Opens the engine that computes ONNX models with transformers.js. The package and a model of the
 * hub are fetched where they are not here yet. It lives in an engine host; see `openHostedEngine`
 * for what its death means.
 *
 * @throws SluiceError as `locateEnginePackage`, `openHostedEngine` and `openTask`.
 */
export async function openTransformers(
  options: TransformersModelOptions,
  context: EngineContext,
): Promise<Engine> {
  const { entry } = await locateEnginePackage("transformers", context, { install: true });
  return openTransformersFrom(options, entry, context);
}

/** As `openTransformers`, with the package that lies at `modulePath`. */
export async function openTransformersFrom(
  options: TransformersModelOptions,
  modulePath: string,
  context: OpenContext,
  onWait?: () => void,
): Promise<Engine> {
  const model = parseOnnxModelName(options.name);
  const { environment, homeDirectory } = context;
  if (model.kind === "folder") {
    await assertOnnxFolder(model.path);
    const sha256 = await keptSha256(await filesOf(model.path), homeDirectory);
    return openHost({ modulePath, options, model, sha256, ...placesOf(context) }, context);
  }
  const { directory, mark, lock } = hubCache(homeDirectory, model, variantOf(options));
  const host = () =>
    openHost(
      { modulePath, options, model, ...placesOf(context), cacheDirectory: directory },
      context,
    );
  if (isHubOffline(environment) || (await exists(mark))) return host();
  // One process fetches the files, the others wait for them.
  await mkdir(directory, { recursive: true });
  const { clock, random } = context;
  return withFileLock(lock, { clock, random, onWait }, async () => {
    const engine = await host();
    await writeFile(mark, markOf(options.name));
    return engine;
  });
}

/** Whether the model is on this machine, as far as that can be told without loading it. */
export async function isModelHere(
  options: TransformersModelOptions,
  { homeDirectory }: Pick<EngineContext, "homeDirectory">,
): Promise<boolean> {
  const model = parseOnnxModelName(options.name);
  if (model.kind === "folder") return true;
  return exists(hubCache(homeDirectory, model, variantOf(options)).mark);
}

/** What decides which files of a repository are needed. */
function variantOf({ task, dtype }: TransformersModelOptions): string {
  return `${task} ${dtype}`;
}

function placesOf({ environment, homeDirectory }: OpenContext) {
  return {
    cacheDirectory: homeDirectory,
    hubAddress: `${hubEndpoint(environment)}/`,
    hubToken: environment.HF_TOKEN,
    isOnline: !isHubOffline(environment),
  };
}

function openHost(options: HostedTransformersOptions, context: OpenContext): Promise<Engine> {
  return openHostedEngine({
    kind: "transformers",
    options: JSON.parse(JSON.stringify(options)),
    // Node's own fetch, with which the package gets files, looks at proxies when it is told to.
    context: { ...context, environment: { ...context.environment, NODE_USE_ENV_PROXY: "1" } },
  });
}

/** The files that a model consists of. */
async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const paths = files.map((entry) => join(entry.parentPath, entry.name));
  // A clone of a repository has the history of its files beside them.
  return paths.filter((path) => !/[\\/]\./.test(path.slice(folder.length))).sort();
}
