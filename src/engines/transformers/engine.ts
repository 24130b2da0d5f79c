import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { hubEndpoint, isHubOffline } from "../../foundation/hub.ts";
import type { Engine, EngineContext } from "../engine.ts";
import { type PrepareOptions, preparePackage } from "../engine-description.ts";
import { type HostContext, openHostedEngine } from "../host/client.ts";
import { withFileLock } from "../models/file-lock.ts";
import { dropStaleMarks, hubCache, isComplete, markOf } from "../models/hub-cache.ts";
import { keptSha256 } from "../models/kept-digest.ts";
import { locateEnginePackage, type PackageContext } from "../packages/packages.ts";
import type { HostedTransformersOptions } from "./hosted-transformers.ts";
import { assertOnnxFolder, parseOnnxModelName } from "./model-place.ts";
import type { TransformersModelOptions } from "./options.ts";

/** What opening needs of the outside world. */
type OpenContext = HostContext & Pick<EngineContext, "homeDirectory">;

/**
 * Opens the engine that computes ONNX models with transformers.js. A missing package or model of
 * the hub is fetched. The engine runs in a host; see `openHostedEngine` for the effect of its
 * death.
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

/** Who waits for the fetch of a model. */
interface FetchCalls {
  /** Ends the opening. */
  signal?: AbortSignal | undefined;
  /** Called before waiting for another process that fetches the same model. */
  onWait?: () => void;
  /** Called now and then with the bytes of this process. */
  onFetch?: (bytes: number) => void;
}

/** Like `openTransformers`, with the package at `modulePath`. */
export async function openTransformersFrom(
  options: TransformersModelOptions,
  modulePath: string,
  context: OpenContext,
  { signal, onWait, onFetch }: FetchCalls = {},
): Promise<Engine> {
  const model = parseOnnxModelName(options.name);
  const { environment, homeDirectory } = context;
  if (model.kind === "folder") {
    await assertOnnxFolder(model.path);
    const sha256 = await keptSha256(await filesOf(model.path), homeDirectory);
    return openHost({ modulePath, options, model, sha256, ...placesOf(context) }, context);
  }
  const cache = hubCache(homeDirectory, model, variantOf(options));
  const { directory, mark, lock } = cache;
  const host = () =>
    openHost(
      { modulePath, options, model, ...placesOf(context), cacheDirectory: directory },
      context,
      { signal, onFetch },
    );
  if (isHubOffline(environment) || (await isComplete(cache))) return host();
  // One process fetches the files, the others wait for them.
  await mkdir(directory, { recursive: true });
  const { clock, random } = context;
  const waiting = { clock, random, ...(signal && { signal }), ...(onWait && { onWait }) };
  return withFileLock(lock, waiting, async () => {
    await dropStaleMarks(cache);
    const engine = await host();
    await writeFile(mark, markOf(options.name));
    return engine;
  });
}

/** Whether the model is on this machine, as far as known without loading it. */
export async function isModelHere(
  options: TransformersModelOptions,
  { homeDirectory }: Pick<EngineContext, "homeDirectory">,
): Promise<boolean> {
  const model = parseOnnxModelName(options.name);
  if (model.kind === "folder") return true;
  return isComplete(hubCache(homeDirectory, model, variantOf(options)));
}

/** The facts that decide which files of a repository are needed. */
function variantOf({ task, dtype }: TransformersModelOptions): string {
  return `${task} ${dtype}`;
}

function placesOf({ environment, homeDirectory }: OpenContext) {
  return {
    cacheDirectory: homeDirectory,
    hubAddress: `${hubEndpoint(environment)}/`,
    environment: Object.fromEntries(fetchVariables.map((name) => [name, environment[name]])),
    isOnline: !isHubOffline(environment),
  };
}

/** Variables about the hub and proxies. */
const fetchVariables = [
  ...["HF_TOKEN", "HF_ENDPOINT"],
  ...["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"],
];

function openHost(
  options: HostedTransformersOptions,
  context: OpenContext,
  calls: Pick<FetchCalls, "signal" | "onFetch"> = {},
): Promise<Engine> {
  return openHostedEngine({
    kind: "transformers",
    options: JSON.parse(JSON.stringify(options)),
    context,
    ...calls,
  });
}

/** The files of a model. */
async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const paths = files.map((entry) => join(entry.parentPath, entry.name));
  // A clone of a repository also contains the history of its files.
  return paths.filter((path) => !/[\\/]\./.test(path.slice(folder.length))).sort();
}

/**
 * Puts the package and the model on this machine. The package of transformers.js fetches a model of
 * the hub when it loads it, so it is loaded once.
 *
 * @throws SluiceError `ENGINE_MISSING` and `MODEL_MISSING` if `install` is false, else errors of
 *   opening the engine; the reason of the context's signal.
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
  const { hostCommand, signal } = context;
  if (hostCommand === undefined) return;
  const onFetch = (bytes: number) => onProgress?.({ name: options.name, source: "hub", bytes });
  onFetch(0);
  const calls = { signal, onFetch, onWait: () => onWait?.(options.name) };
  const engine = await openTransformersFrom(options, entry, { ...context, hostCommand }, calls);
  await engine.close();
}
