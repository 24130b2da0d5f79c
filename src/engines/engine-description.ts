import type { InferenceRequest } from "../foundation/inference.ts";
import type { KeptBatch } from "./batch-records.ts";
import type { Engine, EngineContext } from "./engine.ts";
import type { DownloadProgress } from "./models/model-context.ts";
import type { ResolveOptions } from "./models/models.ts";
import type { LocatedEngine, PackageContext } from "./packages/packages.ts";
import type { ParameterSupport } from "./parameter-support.ts";

/** GPUs for a job's model. */
export interface DeviceOptions {
  /** Numbers or names, as the vendor's driver has them. */
  devices?: readonly (number | string)[] | undefined;
  /** The first of `devices`. */
  mainGpu?: number | undefined;
  /** How many one engine needs. Default: one, or with `mainGpu` all. */
  perWorker?: number | undefined;
}

/** A secret that is sent to a server. */
export interface SentKey {
  variable: string;
  host: string;
  /** True if the job does not name the variable. */
  isDefault: boolean;
}

/** How an engine's needs are brought to this machine. */
export interface PrepareOptions {
  /** Whether missing files are fetched. */
  install: boolean;
  onProgress?(progress: DownloadProgress): void;
  /** Called before waiting for another process that fetches the same, with its name. */
  onWait?(what: string): void;
}

/** Makes a path of the field `path` absolute, from the place where it is named. */
export type MakeAbsolute = (text: string, ...path: string[]) => string;

/**
 * All that is known of an engine without opening it. Planning and the backends read it; `open`
 * loads the code that computes, so that a run pays only for the engine it uses.
 *
 * `Options` is the type of the engine's schema in its `options.ts`.
 */
export interface EngineDescription<Options> {
  /**
   * Loads the engine and opens it.
   * @throws SluiceError its reason why it cannot be opened.
   */
  open(options: Options, context: EngineContext): Promise<Engine>;
  /**
   * Most tokens of an answer without a written limit; null if a server decides, which is then sent
   * none. Default: `limits.maxNewTokens`.
   */
  maxNewTokens?: number | null;
  /** The generation parameters that it takes. */
  support(options: Options): ParameterSupport;
  /** The advice on prompts that are too long, of one that cannot cut them. Default: it can. */
  cutsNone?: string;
  /** Whether it makes embeddings of texts: requests with `embed`. Default: no. */
  embeds?(options: Options): boolean;
  /** Whether it answers everything by an embedding, and writes no text. Default: no. */
  onlyEmbeds?(options: Options): boolean;
  /** Whether it transcribes speech in files: requests with `file`. Default: no. */
  transcribes?(options: Options): boolean;
  /**
   * The path of a file that it opens for a request without a prompt that names it by `file`;
   * undefined if there is none. Default: it opens none.
   */
  opensFile?(options: Options, request: InferenceRequest): string | undefined;
  /** Whether a chat may have tools: requests with `tools`. Default: no. */
  callsTools?: boolean;
  /** Whether it enforces the arguments of calls, and so needs `argumentGrammars`. Default: no. */
  enforcesArguments?: boolean;
  /** The parts that a message may have beside text. Default: none, and texts come as one. */
  contentParts?: readonly ("image" | "audio")[];
  /** Whether a chat may have an image: `messages` with a `file`. Default: no. */
  seesImages?: boolean;
  /**
   * Whether consecutive prompts with a common beginning are cheaper: the engine, or its server, has
   * a prefix cache.
   */
  keepsPrefixes: boolean;
  /**
   * Whether answers may follow the number of the row: equal requests of several rows are then all
   * sent, unless the job has a cache. Default: no.
   */
  readsIndex?: boolean;
  /**
   * Whether it reads rows and not only text: each request carries its row, and jobs may have no
   * prompt. Default: no.
   */
  takesRows?: boolean;
  /** Whether it turns rows into rows: its responses have `rows`. Default: it answers rows. */
  givesRows?: boolean;
  /**
   * Tasks should hold a multiple of this number of rows, so that batches of an exact size fit.
   * Default: any number.
   */
  taskRowsMultiple?(options: Options): number;
  /** Rows of a task if the job sets none, for so many in all. Default: by the workers. */
  taskRows?(options: Options, rows: number): number | undefined;
  /**
   * How many neighbouring rows of a task form one request, in `InferenceRequest.rows`, and are
   * settled together. Default: each row alone.
   */
  rowsTogether?(options: Options): number;
  /**
   * Notices about options that were divided among workers. Default: none.
   *
   * @param cores those of each worker, if known.
   */
  notices?(options: Options, cores?: number): string[];
  /** Whether one worker has work for all cores of a machine. Default: a worker takes one core. */
  usesAllCores?: boolean;
  /**
   * Whether a worker holds rows that its engine has no room for yet, so that it never waits. Where
   * a row may take hours, such a row would wait although another worker has room. Default: yes.
   */
  takesAhead?: boolean;
  /**
   * Whether its requests go to a provider in batches, which are kept with the run: answers come
   * after minutes or hours. Default: no.
   */
  sendsBatches?(options: Options): boolean;
  /**
   * Cancels batches at their provider, each with the provider's id if it is known, and returns how
   * many were not over yet. Present with `sendsBatches`.
   *
   * @param run as in `BatchRecords`.
   * @param patienceMs longest time without success; default: as for the run's own calls.
   * @throws SluiceError if the provider cannot be told.
   */
  cancelBatches?(
    options: Options,
    context: EngineContext,
    run: string,
    batches: readonly KeptBatch[],
    patienceMs?: number,
  ): Promise<number>;
  /**
   * Deletes the files of batches at their provider, when the run has the answers. Present with
   * `sendsBatches`; never rejects.
   *
   * @returns why files stay, if that is not wanted.
   */
  deleteBatchFiles?(
    options: Options,
    context: EngineContext,
    batches: readonly KeptBatch[],
  ): Promise<string | undefined>;
  /** Tasks that a worker holds open at once. Default: `limits.maxOpenTasks`. */
  maxOpenTasks?(options: Options): number | undefined;
  /** Whether all workers use the same servers, so that more workers do not compute more. */
  isShared?: boolean;
  /** Programs and modules that it executes, by names for people. Default: none. */
  executes?(options: Options): readonly string[];
  /** Variables whose values it sends if they are set, and the receiving hosts. Default: none. */
  sendsKeys?(options: Options): readonly SentKey[];
  /** Addresses of its servers. Default: none. */
  servers?(options: Options): readonly string[];
  /** Addresses that `prepare` and `check` send requests to. Default: none. */
  looksAt?(options: Options): readonly string[];
  /** Time a worker may take to open it. Default: `limits.workerReadyTimeoutMs`. */
  readyTimeoutMs?(options: Options): number;
  /** Its need of GPUs; undefined if it uses none. Default: it uses none. */
  devices?(options: Options): DeviceOptions | undefined;
  /** Whether one engine uses all GPUs that it sees. Default: only the first. */
  spreadsOverDevices?: boolean;
  /** With every path made absolute. Default: it names no paths. */
  withAbsolutePaths?(options: Options, absolute: MakeAbsolute): Options;
  /**
   * With everything else that decides its answers, such as digests of files: if that changes, a run
   * is not continued. Default: nothing.
   *
   * @throws SluiceError if a file cannot be read.
   */
  identified?(options: Options): Promise<Options>;
  /**
   * The options for each of several workers: common limits divided, cores shared.
   *
   * @param cores those of each worker, if known.
   * @param freeMemoryBytes free memory for each worker, if known.
   */
  sharedAmong?(
    options: Options,
    workers: number,
    cores?: number,
    freeMemoryBytes?: number,
  ): Options;
  /**
   * The options for online use: a request that is alone should be answered soon, even where its
   * answer may then depend on others. Default: as they are.
   */
  forOnline?(options: Options): Options;
  /**
   * Refuses an environment that lacks what it needs; nothing is opened.
   *
   * @throws SluiceError such as `ENV_MISSING`.
   */
  assertEnvironment?(options: Options, environment: EngineContext["environment"]): void;
  /**
   * Makes sure that its package and its model are on this machine, and that its servers answer,
   * before workers start.
   *
   * @throws SluiceError `ENGINE_MISSING` or `MODEL_MISSING` if `install` is false, else errors of
   *   fetching.
   */
  prepare?(options: Options, context: PackageContext, prepare: PrepareOptions): Promise<void>;
  /**
   * Refuses an unavailable model; fetches nothing.
   *
   * @throws SluiceError such as `MODEL_UNKNOWN`.
   */
  check?(options: Options, context: PackageContext): Promise<void>;
}

/** `sharedAmong` of a model on the processor: each of several workers has a thread a core. */
export function threadACore<Options extends { threads?: number | undefined }>(
  options: Options,
  workers: number,
  cores?: number,
): Options {
  if (workers === 1 || cores === undefined) return options;
  return { ...options, threads: options.threads ?? cores };
}

/** The package of an engine, fetched if it is missing; errors as `locateEnginePackage`. */
export async function preparePackage(
  engine: string,
  context: PackageContext,
  { install, onProgress, onWait }: PrepareOptions,
): Promise<LocatedEngine> {
  const { locateEnginePackage } = await import("./packages/packages.ts");
  const facts = { name: `${engine} engine`, source: engine === "openvino" ? "pip" : "npm" };
  return await locateEnginePackage(engine, context, {
    install,
    onWait: () => onWait?.(`the ${facts.name}`),
    onProgress: (bytes) => onProgress?.({ ...facts, bytes }),
  });
}

/**
 * `prepare` and `check` of an engine whose model is on this machine.
 *
 * @param engine the name of its package, if it has one.
 * @param find locates the model, and fetches a missing one if it may.
 */
export function onThisMachine(
  engine: string | undefined,
  find: (name: string, context: PackageContext, options: ResolveOptions) => Promise<unknown>,
): Required<Pick<EngineDescription<{ name: string }>, "prepare" | "check">> {
  return {
    async prepare({ name }, context, options) {
      if (engine !== undefined) await preparePackage(engine, context, options);
      const { install, onProgress, onWait } = options;
      await find(name, context, {
        download: install,
        onWait: () => onWait?.(name),
        onProgress: (progress) => onProgress?.(progress),
      });
    },
    async check({ name }, context) {
      const { parseModelName } = await import("./models/model-reference.ts");
      const { kind } = parseModelName(name, context.workingDirectory);
      if (kind === "path") await find(name, context, { download: false });
    },
  };
}
