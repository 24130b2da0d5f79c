import type { Json } from "../../foundation/json.ts";
import type { ServerClient } from "./server-client.ts";

/** How a server is started, whichever it is. */
export interface ServerLaunch {
  /** As the job calls the engine. */
  name: string;
  /** The program and its arguments, the address left out. */
  command: readonly [string, ...string[]];
  /** Variables that it gets beside those of the worker. */
  environment: Readonly<Record<string, string>>;
  /** The variable that it takes the key from with which it is to be asked. */
  keyVariable: string;
  /** What it says of itself once it is ready; undefined where it is not, or is not ours. */
  readFacts(client: ServerClient): Promise<ServerFacts | undefined>;
  loadTimeoutMs: number;
  /** For the manifest, with the server's own facts. */
  choices: Readonly<Record<string, Json>>;
}

/** What a server says of itself. */
export interface ServerFacts {
  /** What requests are to call the model. */
  modelName: string;
  version: string | null;
  /** Requests that it computes at once, where that is known. */
  slots?: number | undefined;
  /** Tokens that a request may have. */
  contextTokens?: number | undefined;
}
