import type { Spawn } from "../../foundation/subprocess.ts";
import type { EngineContext } from "../engine.ts";

/**
 * What fetching models and engine packages may use of the outside world. An `EngineContext` is one.
 *
 * Environment variables read: `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`, `SLUICE_MODEL_PATH`,
 * `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`, and for children (`python3`, `npm`) all of them.
 */
export interface ModelContext
  extends Pick<EngineContext, "clock" | "random" | "logger" | "environment" | "homeDirectory"> {
  /** What relative paths are relative to; default: the process's working directory. */
  workingDirectory?: string;
  /**
   * How HTTP is done: a `Dispatcher` of undici, whose types users need not have. Default: an agent
   * with short connect timeouts and the proxy variables.
   */
  dispatcher?: object;
  spawn?: Spawn;
  /** Gives a download up. What is fetched is kept for the next try. */
  signal?: AbortSignal;
}

/** How far a download is. */
export interface DownloadProgress {
  name: string;
  /** Where it comes from now, as a person reads it: `hub`, `pypi`, `path`, or a host. */
  source: string;
  /** Bytes that are there, those of an earlier try included. */
  bytes: number;
  /** Unknown for some servers. */
  totalBytes?: number;
}

/** A model file that is on this machine. */
export interface ResolvedModel {
  /** Absolute path of the GGUF file. */
  path: string;
  /** The name it was asked by. */
  name: string;
  /** As pinned, or as computed when it was downloaded; not known for a plain path. */
  sha256?: string;
  bytes: number;
  /** Where it came from: `hub`, `pypi`, `path` or `url`; `file` for a plain path. */
  source: string;
}
