import type { Spawn } from "../../foundation/subprocess.ts";
import type { EngineContext } from "../engine.ts";

/**
 * What fetching models and engine packages may use of the outside world. An `EngineContext` is one.
 *
 * Environment variables that are read: `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`,
 * `SLUICE_MODEL_PATH`, `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`, and for children (`python3`, `npm`)
 * all of them.
 */
export interface ModelContext
  extends Pick<EngineContext, "clock" | "random" | "logger" | "environment" | "homeDirectory"> {
  /** The base of relative paths; default: the process's working directory. */
  workingDirectory?: string;
  /**
   * The HTTP client: a `Dispatcher` of undici, whose types users need not have. Default: an agent
   * with short connect timeouts and the proxy variables.
   */
  dispatcher?: object;
  spawn?: Spawn;
  /** Cancels a download. Fetched bytes are kept for the next try. */
  signal?: AbortSignal;
}

export interface DownloadProgress {
  name: string;
  /** The present source, for people: `hub`, `pypi`, `path`, or a host. */
  source: string;
  /** Received bytes, including those of an earlier try. */
  bytes: number;
  /** Unknown for some servers. */
  totalBytes?: number;
}

/** A model file on this machine. */
export interface ResolvedModel {
  /** Absolute path of the GGUF file. */
  path: string;
  /** The name by which it was requested. */
  name: string;
  /** As pinned, or as computed at its download; unknown for a plain path. */
  sha256?: string;
  bytes: number;
  /** Its source: `hub`, `pypi`, `path` or `url`; `file` for a plain path. */
  source: string;
}
