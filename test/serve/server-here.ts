import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { systemProcesses } from "../../src/api/process-table.ts";
import { DevicePool } from "../../src/backends/local/device-pool.ts";
import { storageOpener } from "../../src/data/storage/open.ts";
import type { Storage } from "../../src/data/storage/storage.ts";
import { entryCommand } from "../../src/entry.ts";
import { type ServeInput, type ServeOptions, serveSchema } from "../../src/serve/options.ts";
import { type Server, type ServerContext, startServer } from "../../src/serve/server.ts";
import { engineContext } from "../engines/engine-context.ts";

/** The context of a server in this process. */
export function serverContext(changes: Partial<ServerContext> = {}): ServerContext {
  const common = engineContext({
    hostCommand: entryCommand("engines/host/main", process.execPath),
  });
  return {
    ...common,
    openStorage: storageOpener({ ...common, store: {}, spoolDirectory: tmpdir() }),
    processes: systemProcesses(process.pid, process.platform),
    resources: { cores: 1, devices: new DevicePool({}) },
    logAccess() {},
    ...changes,
  };
}

/** A storage with some calls replaced. */
export function withCalls(storage: Storage, calls: Partial<Storage>): Storage {
  return new Proxy(storage, {
    get(target, key) {
      const own: unknown = Reflect.get(calls, key) ?? Reflect.get(target, key);
      return typeof own === "function" ? own.bind(target) : own;
    },
  });
}

/** A folder that goes with the test. */
export function serverFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "server-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** Options of a server on free ports, which does not wait for its clients at its end. */
export function serverOptions(folder: string, given: ServeInput): ServeOptions {
  const any = "127.0.0.1:0";
  return serveSchema.parse({
    listen: { inference: any, management: any, metrics: any },
    dataDirectory: join(folder, "data"),
    ...given,
    limits: { drainTimeoutMs: 50, ...given.limits },
  });
}

/** A server in this process; it ends with the test. */
export async function serverHere(
  given: ServeInput,
  changes: Partial<ServerContext> = {},
): Promise<Server> {
  const server = await startServer(serverOptions(serverFolder(), given), serverContext(changes));
  onTestFinished(() => server.close());
  return server;
}

const asJson = { "content-type": "application/json" };

/** The reply to a body in JSON: its status, its headers and its value. */
export async function sent(address: string, value: unknown, headers: Record<string, string> = {}) {
  const reply = await fetch(address, {
    ...{ method: "POST", headers: { ...asJson, ...headers }, body: JSON.stringify(value) },
  });
  return { status: reply.status, headers: reply.headers, body: await reply.json() };
}
