import { onTestFinished } from "vitest";
import type { Engine, EngineContext } from "../../../src/engines/engine.ts";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { openOpenai } from "../../../src/engines/openai/engine.ts";
import type { OpenaiModelOptions } from "../../../src/engines/openai/options.ts";
import {
  type FakeServer,
  type FakeServerOptions,
  type ServerBehaviour,
  startFakeServer,
} from "../../../src/testing/fake-server.ts";
import { chatRequest, engineContext } from "../engine-context.ts";

/** A signal that is never aborted. */
export const never = new AbortController().signal;

/** A stand-in server that is closed after the test. */
export async function serve(options: FakeServerOptions = {}): Promise<FakeServer> {
  const server = await startFakeServer(options);
  onTestFinished(() => server.close());
  return server;
}

/** An engine over servers, closed after the test; its waits are the first hundredth of each. */
export function openOver(
  servers: readonly (FakeServer | { baseUrl: string; weight?: number; apiKeyEnv?: string })[],
  changes: Record<string, unknown> = {},
  context: Partial<EngineContext> = {},
): Engine {
  const endpoints = servers.map((server) =>
    "close" in server ? { baseUrl: server.baseUrl } : server,
  );
  const options = modelOptions.parse({ engine: "openai", name: "m", endpoints, ...changes });
  const random = { next: () => 0.01 };
  const engine = openOpenai(options as OpenaiModelOptions, engineContext({ random, ...context }));
  onTestFinished(() => engine.close());
  return engine;
}

/** So many different requests. */
export const asks = (count: number) =>
  Array.from({ length: count }, (_, index) => chatRequest(index));

/** A reply with a status and a text. */
export const status = (code: number, body = "no"): ServerBehaviour => ({
  ...{ kind: "status", status: code, body },
});

/** A logger that keeps what it is told. */
export function keptLog() {
  const lines: { message: string; facts: Record<string, unknown> }[] = [];
  const log = (_level: string, message: string, facts: object = {}) =>
    void lines.push({ message, facts: { ...facts } });
  return { lines, logger: { log } };
}
