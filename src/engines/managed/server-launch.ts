import type { Json } from "../../foundation/json.ts";
import type { ServerClient } from "./server-client.ts";

/** How a server is started, whichever it is. */
export interface ServerLaunch {
  /** The engine's name in a job. */
  name: string;
  /** The program and its arguments, without the address. */
  command: readonly [string, ...string[]];
  /** Its variables besides those of the worker. */
  environment: Readonly<Record<string, string>>;
  /** The variable from which it takes the key for its requests. */
  keyVariable: string;
  /** Its facts once it is ready; undefined if it is not ready, or not ours. */
  readFacts(client: ServerClient): Promise<ServerFacts | undefined>;
  loadTimeoutMs: number;
  /** For the manifest, with the server's own facts. */
  choices: Readonly<Record<string, Json>>;
}

export interface ServerFacts {
  /** The model's name in requests. */
  modelName: string;
  version: string | null;
  /** Requests that it computes at once, if known. */
  slots?: number | undefined;
  /** Most tokens of a request. */
  contextTokens?: number | undefined;
}
