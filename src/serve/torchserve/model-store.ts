import { closeSync, openSync, writeSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, realpath, rm } from "node:fs/promises";
import { basename, join, sep } from "node:path";
import { listDevices, shownDevices } from "../../engines/devices.ts";
import type { EngineContext } from "../../engines/engine.ts";
import { type ModelOptions, modelOptions } from "../../engines/model-options.ts";
import { openEngine } from "../../engines/registry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { lazily } from "../../foundation/lazily.ts";
import { limits } from "../../foundation/limits.ts";
import {
  downloadDispatcher,
  type RemoteResponse,
  readBody,
  requestRemoteFile,
} from "../../foundation/remote-file.ts";
import { generationOptions } from "../../run/job/generation-schema.ts";
import { readJobFile } from "../../run/job/job-file.ts";
import type { ServeOptions } from "../options.ts";
import { observedContext, ServedModel, type Serving } from "../served-model.ts";
import { Workers } from "../workers.ts";
import { type UnpackedArchive, unpackArchive } from "./archive.ts";
import {
  manifestSchema,
  setupSchema,
  type WorkerOptions,
  workerOptions,
} from "./archive-options.ts";
import type { Registration, WorkerSettings } from "./registry.ts";
import { Refusal, refusals } from "./replies.ts";

export type ModelStoreOptions = ServeOptions["archives"] & {
  unpackDirectory: string;
  serving: Serving;
};

/** What a registration says beside the archive. */
export interface Registering {
  /** Default: that of the archive. */
  name?: string | undefined;
  runtime?: string | undefined;
  handler?: string | undefined;
  /** Undefined values are the archive's, or the server's. */
  settings: { [Key in keyof WorkerSettings]?: WorkerSettings[Key] | undefined };
  isLoadedAtStartup: boolean;
}

/** The archives that may be registered, as models without workers yet. */
export class ModelStore {
  readonly #options: ModelStoreOptions;
  readonly #context: EngineContext;

  /** The GPUs that handlers see, by their numbers there. */
  readonly #shownDevices = lazily(async () => {
    const { environment, logger } = this.#context;
    const { devices, problem } = await listDevices(environment);
    if (problem !== undefined) logger.log("warn", `GPUs are not given out (${problem})`);
    return shownDevices(devices, environment);
  });

  constructor(options: ModelStoreOptions, context: EngineContext) {
    this.#options = options;
    this.#context = context;
  }

  async archives(): Promise<string[]> {
    const { modelStore: directory } = this.#options;
    if (directory === undefined) return [];
    return (await readdir(directory)).filter((name) => name.endsWith(".mar")).toSorted();
  }

  /**
   * Opens an archive; it gets its workers afterwards.
   *
   * @param url a name in the store, or a web address that is allowed.
   * @throws Refusal if there is none; SluiceError `ARCHIVE_INVALID`.
   */
  async open(url: string, registering: Registering): Promise<Registration> {
    const { unpackDirectory } = this.#options;
    if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) {
      const unpacked = await unpackArchive(await this.#pathOf(url), unpackDirectory);
      return this.#registration(url, unpacked, registering);
    }
    const temporary = await this.#download(url);
    try {
      const unpacked = await unpackArchive(join(temporary, archiveName), unpackDirectory);
      return await this.#registration(url, unpacked, registering);
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
  }

  async #pathOf(url: string): Promise<string> {
    const { modelStore: directory } = this.#options;
    const notFound = (message: string) => new Refusal(404, "ModelNotFoundException", message);
    if (url.includes("..")) throw notFound(`Relative path is not allowed in url: ${url}`);
    if (directory === undefined) throw notFound("Model store has not been configured.");
    const store = await realpath(directory);
    const path = await realpath(join(store, url)).catch(() => {
      throw notFound(`Model not found at: ${url}`);
    });
    // A link may lead out of the store.
    if (!path.startsWith(store + sep)) throw notFound(`Model not found at: ${url}`);
    return path;
  }

  async #download(url: string): Promise<string> {
    const { urls, unpackDirectory } = this.#options;
    if (!URL.canParse(url) || !isAllowed(new URL(url), urls)) {
      const message = `Given URL ${url} does not match any allowed URL(s)`;
      throw new Refusal(400, "InvalidArchiveURLException", message);
    }
    await mkdir(unpackDirectory, { recursive: true });
    const temporary = await mkdtemp(join(unpackDirectory, "download-"));
    const dispatcher = downloadDispatcher(this.#context.environment, {
      connectTimeoutMs: limits.sourceConnectTimeoutMs,
      stallTimeoutMs: limits.sourceStallTimeoutMs,
    });
    try {
      const response = await requestRemoteFile({ url }, (at) => {
        if (isAllowed(at, urls)) return dispatcher;
        throw new Error(`it leads to ${at.origin}, which is not allowed`);
      });
      if (response.status !== 200) throw new Error(`status ${response.status}`);
      await writeBody(response, join(temporary, archiveName));
      return temporary;
    } catch (error) {
      await rm(temporary, { recursive: true, force: true });
      this.#context.logger.log("warn", `${url} was not fetched`, { error: String(error) });
      const message = `Failed to download archive from: ${url}`;
      throw new Refusal(400, "DownloadArchiveException", message);
    } finally {
      await dispatcher.close();
    }
  }

  async #registration(
    url: string,
    archive: UnpackedArchive,
    { name, runtime, handler, settings: given, isLoadedAtStartup }: Registering,
  ): Promise<Registration> {
    const { models: served, serving } = this.#options;
    const { model } = archive.manifest;
    const changed = manifestSchema.safeParse({
      ...archive.manifest,
      ...(runtime !== undefined && { runtime: runtime.toLowerCase() }),
      model: { ...model, ...(handler !== undefined && { handler }) },
    });
    if (!changed.success) throw refusals.badRequest("handler must be a file of the archive");
    const manifest = changed.data;
    const own = name ?? model.modelName;
    const config = await configOf(archive);
    const key = [own, basename(url)].find((each) => Object.hasOwn(served, each));
    const options: WorkerOptions = { ...(key !== undefined && served[key]), ...config };
    const deviceIds = await this.#devicesOf(archive, options);
    const settings = this.#settings(options, given, deviceIds);
    const modelFor = (gpu: number | undefined) =>
      this.#modelOf({ directory: archive.directory, manifest }, own, settings, { gpu, config });
    const context = observedContext(this.#context, own, serving.observer);
    const workers = new Workers(async (place) => {
      const gpu = deviceIds.length === 0 ? undefined : deviceIds[place % deviceIds.length];
      const engine = await openEngine(modelFor(gpu), context);
      return { engine, gpus: gpu === undefined ? [] : [String(gpu)] };
    }, context.clock);
    const queueSize = options.jobQueueSize ?? serving.limits.maxQueueSize;
    const how = { ...asServed, model: modelFor(undefined), maxQueueSize: queueSize };
    return {
      ...{ name: own, version: model.modelVersion, url, runtime: manifest.runtime },
      served: new ServedModel(own, workers, how, serving, this.#context),
      ...{ settings, queueSize, fields: {}, isLoadedAtStartup },
      handler: manifest.runtime === "node" ? "node" : "python",
    };
  }

  /** What a registration says, else the archive, else the server. */
  #settings(
    options: WorkerOptions,
    given: Registering["settings"],
    deviceIds: readonly number[],
  ): WorkerSettings {
    const { workers, responseTimeoutSeconds, startupTimeoutSeconds } = this.#options;
    const minWorkers = given.minWorkers ?? options.minWorkers ?? workers;
    return {
      minWorkers,
      maxWorkers: Math.max(minWorkers, given.maxWorkers ?? options.maxWorkers ?? minWorkers),
      batchSize: given.batchSize ?? options.batchSize ?? 1,
      maxBatchDelay: given.maxBatchDelay ?? options.maxBatchDelay ?? 100,
      responseTimeout: given.responseTimeout ?? options.responseTimeout ?? responseTimeoutSeconds,
      startupTimeout: given.startupTimeout ?? options.startupTimeout ?? startupTimeoutSeconds,
      deviceIds,
    };
  }

  /** The GPUs of a model: by its handler's own table, by its YAML, or all of the server. */
  async #devicesOf(
    { directory, manifest }: UnpackedArchive,
    { deviceIds, deviceType }: WorkerOptions,
  ): Promise<readonly number[]> {
    const text = await readFile(join(directory, "setup_config.json"), "utf8").catch(() => "{}");
    const setup = setupSchema.safeParse(jsonOf(text), { jitless: true });
    const byModel = new Map(Object.entries(setup.data?.cuda_id ?? {}));
    const chosen = byModel.get(manifest.model.modelName);
    if (chosen !== undefined) return [chosen];
    if (deviceType !== undefined && deviceType !== "gpu") return [];
    const { gpus } = this.#options;
    if (deviceIds !== undefined || gpus === 0) return deviceIds ?? [];
    return (await this.#shownDevices()).slice(0, gpus).map((_, gpu) => gpu);
  }

  #modelOf(
    { directory, manifest }: UnpackedArchive,
    name: string,
    { batchSize, responseTimeout, startupTimeout }: WorkerSettings,
    { gpu, config }: { gpu: number | undefined; config: JsonObject },
  ): ModelOptions {
    const common = {
      name,
      // Any size may be asked for, and is shown.
      maxBatchRows: Math.min(limits.maxBatchRows, Math.max(1, batchSize)),
      timeoutMs: responseTimeout * 1000,
      loadTimeoutMs: Math.min(limits.maxServerLoadTimeoutMs, startupTimeout * 1000),
    };
    const [file = "", entry] = manifest.model.handler.split(":");
    if (manifest.runtime === "node") {
      return modelOptions.parse({
        ...{ engine: "predictor", module: join(directory, file), ...common },
        ...(entry !== undefined && { export: entry }),
        options: { manifest, config, ...(gpu !== undefined && { gpuId: gpu }) },
      });
    }
    const about = { manifest, config, batchSize, gpuId: gpu ?? null, modelDir: directory };
    return modelOptions.parse({
      ...{ engine: "command", command: this.#options.python, ...common },
      args: ["-m", "sluice_handler", JSON.stringify(about)],
      workingDirectory: directory,
    });
  }
}

/** Handlers decide by themselves how they sample. */
const asServed = { generation: generationOptions.parse({}), variants: {} };

/** The file that a download makes in its folder. */
const archiveName = "archive.mar";

/** Whether an address is at or below one of those allowed, or begins with one that ends in `*`. */
function isAllowed({ origin, pathname }: URL, allowed: readonly string[]): boolean {
  // Some servers read these as slashes, and then climb by `..`.
  if (/%(2f|5c)/i.test(pathname)) return false;
  return allowed.some((each) => {
    const base = new URL(each);
    if (base.origin !== origin) return false;
    const path = base.pathname;
    if (path.endsWith("*")) return pathname.startsWith(path.slice(0, -1));
    return pathname === path || pathname.startsWith(path.replace(/\/?$/, "/"));
  });
}

async function writeBody(response: RemoteResponse, path: string): Promise<void> {
  const file = openSync(path, "wx");
  let bytes = 0;
  try {
    await readBody(response, (chunk) => {
      bytes += chunk.length;
      if (bytes > limits.maxArchiveBytes) throw new Error("the archive is too large");
      writeSync(file, chunk);
    });
  } finally {
    closeSync(file);
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * The YAML of an archive.
 *
 * @throws SluiceError `ARCHIVE_INVALID` for a wrong value, with its key.
 */
async function configOf({
  directory,
  manifest,
}: UnpackedArchive): Promise<WorkerOptions & JsonObject> {
  const { configFile } = manifest.model;
  if (configFile === undefined) return {};
  // Whoever made the archive must not read the server's environment.
  const { value, problems } = await readJobFile(configFile, {}, directory);
  const [problem] = problems;
  if (problem) throw new SluiceError("ARCHIVE_INVALID", problem.message, { file: configFile });
  const parsed = workerOptions.safeParse(value, { jitless: true });
  if (parsed.success) return parsed.data as WorkerOptions & JsonObject;
  const [issue] = parsed.error.issues;
  const field = issue!.path.join(".");
  throw new SluiceError("ARCHIVE_INVALID", issue!.message, { file: configFile, field });
}
