import { mkdir, stat } from "node:fs/promises";
import { basename } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import {
  type CacheRecord,
  cacheError,
  cachePlace,
  clearPlace,
  listCached,
  modelsDirectory,
  type RemoteReference,
  readCached,
  tidyPlace,
} from "./cache.ts";
import { type CatalogEntry, catalog } from "./catalog.ts";
import { withFileLock } from "./file-lock.ts";
import { listHubFolders, removeHubFolder, repositoryOf } from "./hub-cache.ts";
import { keptSha256 } from "./kept-digest.ts";
import { fetchModel } from "./mirrors.ts";
import type { DownloadProgress, ModelContext, ResolvedModel } from "./model-context.ts";
import { parseModelName } from "./model-reference.ts";
import { hashFiles, isGguf } from "./part-file.ts";
import { refusePytorchModel } from "./pytorch-folder.ts";
import { modelFiles } from "./split-files.ts";

/** How a model is searched. */
export interface ResolveOptions {
  /** Whether a missing model is fetched. */
  download: boolean;
  onProgress?: (progress: DownloadProgress) => void;
  /** Called before waiting for another process that fetches the same model. */
  onWait?: () => void;
  /** Default: the catalog of Sluice. */
  catalog?: readonly CatalogEntry[];
}

/**
 * The file of a model on this machine, fetched if necessary. `name` is a catalog name, a path to a
 * GGUF file (of a split one the first, with all parts beside it), `hf:owner/repo/file.gguf` or an
 * `https://` address. Many processes may call it at once: one fetches, the others wait for it.
 *
 * @throws SluiceError `MODEL_UNKNOWN`, `MODEL_MISSING` (it is missing and `download` is false),
 *   `MODEL_UNREADABLE`, `MODEL_CORRUPT`, `MODEL_FORMAT_DIFFERS`, `MODEL_FORBIDDEN`,
 *   `MODEL_DOWNLOAD_FAILED`, `STORE_FULL`.
 * @example
 * const { path } = await resolveModel("smollm2-135m-instruct", context, { download: true });
 */
export async function resolveModel(
  name: string,
  context: ModelContext,
  options: ResolveOptions,
): Promise<ResolvedModel> {
  const reference = parseModelName(name, context.workingDirectory, options.catalog);
  if (reference.kind === "path") return resolvePath(name, reference.path);
  const place = cachePlace(context.homeDirectory, reference);
  return inCache(context, async () => {
    const cached = await readCached(place);
    if (cached) return resolved(name, place.file, cached);
    if (!options.download) {
      throw new SluiceError("MODEL_MISSING", name, { hint: `run sluice model pull ${name}` });
    }
    return fetchOnce(reference, context, options);
  });
}

/** The file of a model, fetched if necessary, with what the manifest says of its weights. */
export async function ggufWeights(
  name: string,
  context: ModelContext,
): Promise<{ modelPath: string; file: string; sha256: string }> {
  const { path, sha256: known } = await resolveModel(name, context, { download: true });
  const sha256 = known ?? (await keptSha256(await modelFiles(path), context.homeDirectory));
  return { modelPath: path, file: basename(path), sha256 };
}

async function fetchOnce(
  reference: RemoteReference,
  context: ModelContext,
  { onProgress = () => {}, onWait }: ResolveOptions,
): Promise<ResolvedModel> {
  const place = cachePlace(context.homeDirectory, reference);
  const { clock, random, signal } = context;
  return withFileLock(place.lock, { clock, random, signal, onWait }, async (assertHeld) => {
    // Another process may have fetched it during the wait.
    const cached = await readCached(place);
    if (cached) return resolved(reference.name, place.file, cached);
    await mkdir(place.directory, { recursive: true });
    try {
      const record = await fetchModel(reference, place, context, assertHeld, onProgress);
      return resolved(reference.name, place.file, record);
    } finally {
      await tidyPlace(place);
    }
  });
}

function resolved(name: string, path: string, record: CacheRecord): ResolvedModel {
  const { sha256, bytes, source } = record;
  return { path, name, sha256, bytes, source };
}

async function resolvePath(name: string, path: string): Promise<ResolvedModel> {
  await refusePytorchModel(path, "GGUF files");
  try {
    let bytes = 0;
    for (const file of await modelFiles(path)) {
      const found = await stat(file);
      if (!found.isFile()) throw new SluiceError("MODEL_UNREADABLE", `${file} is not a file`);
      if (!(await isGguf(file))) {
        const hint = "name another file, or fetch it anew";
        throw new SluiceError("MODEL_CORRUPT", `${file} is not GGUF`, { hint });
      }
      bytes += found.size;
    }
    return { path, name, bytes, source: "file" };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (error instanceof SluiceError || code === undefined) throw error;
    const why = code === "ENOENT" || code === "ENOTDIR" ? "does not exist" : `(${code})`;
    const hint = "a model is a GGUF file: give its path, or hf:owner/repo/file.gguf";
    const isGgufName = path.toLowerCase().endsWith(".gguf");
    throw new SluiceError("MODEL_UNREADABLE", `${path} ${why}`, {
      ...(!isGgufName && { hint }),
      cause: error,
    });
  }
}

/** Fetches a missing model, and says whether it was missing. Errors as `resolveModel`. */
export async function pullModel(
  name: string,
  context: ModelContext,
  options: Omit<ResolveOptions, "download"> = {},
): Promise<{ model: ResolvedModel; fetched: boolean }> {
  let fetched = false;
  const onProgress = (progress: DownloadProgress) => {
    fetched = true;
    options.onProgress?.(progress);
  };
  const model = await resolveModel(name, context, { ...options, onProgress, download: true });
  return { model, fetched };
}

/**
 * Removes a model and the rest of an interrupted download from the cache; returns the freed bytes,
 * 0 if there was nothing.
 *
 * @throws SluiceError `MODEL_UNKNOWN`; `USAGE` for a plain path, which is not ours to remove.
 */
export async function removeModel(name: string, context: ModelContext): Promise<number> {
  const { homeDirectory, clock, random, signal } = context;
  const waiting = { clock, random, signal };
  const freed = await inCache(context, () => removeHubFolder(homeDirectory, name, waiting));
  if (freed !== undefined) return freed;
  const reference = parseModelName(name, context.workingDirectory);
  if (reference.kind === "path") {
    throw new SluiceError("USAGE", `${reference.path} is your own file`, {
      hint: "remove it by hand",
    });
  }
  const place = cachePlace(homeDirectory, reference);
  const clear = () => clearPlace(place);
  return inCache(context, () => withFileLock(place.lock, waiting, clear));
}

async function inCache<T>({ homeDirectory }: ModelContext, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    throw cacheError(error, modelsDirectory(homeDirectory));
  }
}

/**
 * The path of a model on this machine: a file, or the folder of a repository of the hub, named as
 * `listModels` names it.
 *
 * @throws SluiceError as `resolveModel`.
 */
export async function modelPath(name: string, context: ModelContext): Promise<string> {
  const folders = await inCache(context, () => listHubFolders(context.homeDirectory));
  const folder = folders.find((each) => each.name === repositoryOf(name));
  return folder?.path ?? (await resolveModel(name, context, { download: false })).path;
}

/** The result of checking a model's file. */
export interface ModelCheck {
  name: string;
  path: string;
  bytes: number;
  sha256: string;
  /** The expected digest; undefined for a plain path. */
  expectedSha256?: string;
  isIntact: boolean;
}

/**
 * Computes the sha256 of a local model and compares it with the pinned or recorded one. For a split
 * model it covers all parts in order.
 *
 * @throws SluiceError `MODEL_MISSING`, `MODEL_UNKNOWN`, `MODEL_UNREADABLE`, `MODEL_CORRUPT`.
 */
export async function verifyModel(name: string, context: ModelContext): Promise<ModelCheck> {
  const model = await resolveModel(name, context, { download: false });
  const files = model.source === "file" ? await modelFiles(model.path) : [model.path];
  const { sha256, bytes } = await hashFiles(files, context.signal);
  const check = { name, path: model.path, bytes, sha256 };
  if (model.sha256 === undefined) return { ...check, isIntact: true };
  return { ...check, expectedSha256: model.sha256, isIntact: sha256 === model.sha256 };
}

/** A line of `sluice model list`. */
export interface ModelListing {
  name: string;
  bytes: number;
  /** Absolute path of the model, if it is on this machine. */
  path?: string;
  source?: string;
  /** Set for models of the catalog. */
  entry?: CatalogEntry;
}

/** The catalog, then the other models in the cache, then those that other engines fetched. */
export function listModels(context: ModelContext): Promise<ModelListing[]> {
  return inCache(context, () => listAll(context));
}

async function listAll(context: ModelContext): Promise<ModelListing[]> {
  const cached = await listCached(context.homeDirectory);
  const known: ModelListing[] = [];
  for (const entry of catalog) {
    const place = cachePlace(context.homeDirectory, { kind: "catalog", name: entry.name, entry });
    const record = await readCached(place);
    const here = record ? { path: place.file, source: record.source } : {};
    known.push({ name: entry.name, bytes: entry.bytes, ...here, entry });
  }
  const names = new Set(catalog.map((entry) => entry.name));
  const others = cached.filter(({ record }) => !names.has(record.name));
  const listed = others.map(({ record, path }) => {
    const { name, bytes, source } = record;
    return { name, bytes, path, source };
  });
  const folders = await listHubFolders(context.homeDirectory);
  return [...known, ...listed, ...folders.map((folder) => ({ ...folder, source: "hub" }))];
}
