import type { InferenceRequest, TooLongPolicy } from "../foundation/inference.ts";
import type { Engine, EngineContext } from "./engine.ts";
import type { DownloadProgress } from "./models/model-context.ts";
import type { PackageContext } from "./packages/packages.ts";
import type { ParameterSupport, Unsupported } from "./parameter-support.ts";

/** GPUs that a job's model is to compute on. */
export interface DeviceOptions {
  /** Numbers or names, as the vendor's driver has them. */
  devices?: readonly (number | string)[] | undefined;
  /** Which of `devices` comes first. */
  mainGpu?: number | undefined;
  /** How many one engine needs. Default: one, or with `mainGpu` all. */
  perWorker?: number | undefined;
}

/** A secret that a server gets. */
export interface SentKey {
  variable: string;
  host: string;
  /** True where the job does not name the variable. */
  isDefault: boolean;
}

/** How what an engine needs is put on this machine. */
export interface PrepareOptions {
  /** Whether what is not here is fetched. */
  install: boolean;
  onProgress?(progress: DownloadProgress): void;
  /** Called when another process is fetching the same, with what that is, before waiting for it. */
  onWait?(what: string): void;
}

/** Makes a path of the field `path` absolute, from the place that names it. */
export type MakeAbsolute = (text: string, ...path: string[]) => string;

/**
 * All that is known of an engine without opening it. Planning and the backends read it; the code
 * that computes is loaded by `open`, so that a run pays only for the engine it uses.
 *
 * `Options` is what the engine's schema in its `options.ts` gives.
 */
export interface EngineDescription<Options> {
  /** Loads the engine and opens it. @throws SluiceError what it says when it cannot be opened. */
  open(options: Options, context: EngineContext): Promise<Engine>;
  /**
   * Most tokens of an answer where nobody wrote a limit; null where a server decides, which is sent
   * none then. Default: `limits.maxNewTokens`.
   */
  maxNewTokens?: number | null;
  /** Which generation parameters it takes. */
  support(options: Options): ParameterSupport;
  /** Which ways to treat prompts that are too long it does not know. Default: it knows all. */
  unsupportedPolicies?(policies: Iterable<TooLongPolicy>): Unsupported[];
  /** Whether it gives vectors of texts: requests with `embed`. Default: it does not. */
  embeds?(options: Options): boolean;
  /** Whether it writes down what is said in files: requests with `file`. Default: it does not. */
  transcribes?(options: Options): boolean;
  /**
   * The path of a file that it opens for a request, though no prompt names it by `file`; undefined
   * where it opens none. Default: it opens none.
   */
  opensFile?(options: Options, request: InferenceRequest): string | undefined;
  /** Whether a chat may name tools that it calls: requests with `tools`. Default: none may. */
  callsTools?: boolean;
  /** Which parts a message may have beside text. Default: none, and texts come as one. */
  contentParts?: readonly ("image" | "audio")[];
  /** Whether a chat may show it an image: `messages` with a `file`. Default: none may. */
  seesImages?: boolean;
  /**
   * Whether prompts that begin alike are cheaper one after another: the engine, or the server
   * behind it, keeps what it computed.
   */
  keepsPrefixes: boolean;
  /**
   * Whether it reads rows and not only words: each request carries its row, and jobs may have no
   * prompt. Default: it does not.
   */
  takesRows?: boolean;
  /** Whether it turns rows into rows: its responses have `rows`. Default: it answers rows. */
  givesRows?: boolean;
  /**
   * A task is to hold a multiple of so many rows, so that batches of an exact size come out even.
   * Default: any number.
   */
  taskRowsMultiple?(options: Options): number;
  /**
   * How many neighbouring rows of a task are asked as one, in `InferenceRequest.rows`, and settled
   * as one. Default: each row by itself.
   */
  rowsTogether?(options: Options): number;
  /**
   * What a person should know of options that were shared among workers. Default: nothing.
   *
   * @param cores those of each worker, where that is known.
   */
  notices?(options: Options, cores?: number): string[];
  /** Whether one worker has work for all cores of a machine. Default: a worker takes one core. */
  usesAllCores?: boolean;
  /** Whether all workers ask the same servers, so that more workers do not compute more. */
  isShared?: boolean;
  /** Programs and modules that it executes, as a person knows them. Default: none. */
  executes?(options: Options): readonly string[];
  /** Variables whose values it sends where they are set, and to which hosts. Default: none. */
  sendsKeys?(options: Options): readonly SentKey[];
  /** Addresses of servers that it asks. Default: none. */
  servers?(options: Options): readonly string[];
  /** Addresses of those that `prepare` and `check` send requests to. Default: none. */
  looksAt?(options: Options): readonly string[];
  /** Time a worker may take to open it. Default: `limits.workerReadyTimeoutMs`. */
  readyTimeoutMs?(options: Options): number;
  /** What it is to have of GPUs; undefined where it uses none. Default: it uses none. */
  devices?(options: Options): DeviceOptions | undefined;
  /** With every path made absolute. Default: it names no paths. */
  withAbsolutePaths?(options: Options, absolute: MakeAbsolute): Options;
  /**
   * With what its answers follow from besides, such as digests of files, so that a run is not gone
   * on with when that changed. Default: nothing.
   *
   * @throws SluiceError where a file cannot be read.
   */
  identified?(options: Options): Promise<Options>;
  /**
   * As each of several workers is to see it: limits that are for all of them divided, cores shared.
   *
   * @param threads cores for each worker, where that is known.
   * @param freeMemoryBytes memory that is free for each worker, where that is known.
   */
  sharedAmong?(
    options: Options,
    workers: number,
    threads?: number,
    freeMemoryBytes?: number,
  ): Options;
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
   * @throws SluiceError `ENGINE_MISSING` or `MODEL_MISSING` where `install` is false, else what
   *   fetching throws.
   */
  prepare?(options: Options, context: PackageContext, prepare: PrepareOptions): Promise<void>;
  /**
   * Refuses a model that cannot be had, and fetches nothing.
   *
   * @throws SluiceError such as `MODEL_UNKNOWN`.
   */
  check?(options: Options, context: PackageContext): Promise<void>;
}
