import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import OpenAI, { toFile } from "openai";
import { expect } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import type { ServeInput } from "../../src/serve/options.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import type { Served } from "./served.ts";

/** The endpoint of the requests. */
export const url = "/v1/chat/completions";
/** A line of a file of requests. */
export const chat = (id: string, more: JsonObject = {}) => ({
  custom_id: id,
  ...{ method: "POST", url },
  body: { model: "m", messages: [{ role: "user", content: `Say ${id}` }], ...more },
});
export const jsonl = (lines: readonly unknown[]) =>
  lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join("");
export const rows = (count: number) => Array.from({ length: count }, (_, at) => chat(`r${at}`));

export const fake = (more: JsonObject = {}): ServeInput["models"] => ({
  m: { engine: "fake", ...more },
});

export const clientOf = ({ baseUrl }: Served) => new OpenAI({ baseURL: baseUrl, apiKey: "none" });

/** Uploads lines, and creates a batch of them. */
export async function begun(client: OpenAI, lines: readonly unknown[], endpoint: string = url) {
  const file = await client.files.create({
    file: await toFile(Buffer.from(jsonl(lines)), "in.jsonl"),
    purpose: "batch",
  });
  return await client.batches.create({
    ...{ input_file_id: file.id, endpoint: endpoint as typeof url, completion_window: "24h" },
  });
}

export type Batch = Awaited<ReturnType<typeof begun>>;

/** Asks for a batch until it is as wanted. */
export async function until(client: OpenAI, id: string, isDone: (batch: Batch) => boolean) {
  for (;;) {
    const batch = await client.batches.retrieve(id);
    if (isDone(batch)) return batch;
    await pause(250);
  }
}

export const isOver = ({ status }: Batch) =>
  ["completed", "failed", "expired", "cancelled"].includes(status);

/** The lines of a result file; none without an id. */
export async function linesOf(client: OpenAI, id: string | null | undefined) {
  if (!id) return [];
  const text = await (await client.files.content(id)).text();
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

export const idsOf = (lines: readonly { custom_id: string }[]) =>
  lines.map((line) => line.custom_id);

/** `sluice verify` and `sluice status` of a batch's run. */
export async function verified(folder: string, { id }: Batch) {
  const run = `sluice-data/batches/${id}/output.jsonl`;
  const { code, stdout } = await runSluice(["verify", run], folder);
  expect(code, stdout).toBe(0);
  const status = await runSluice(["status", run, "--json"], folder);
  expect(status.code).toBe(0);
}

/** A process that a server has started. */
export interface ServerChild {
  pid: number;
  /** The token by which a worker of a batch says so; no other process has one. */
  batchToken: string | undefined;
}

/** The processes that a server has started, read from `/proc`. */
export function childrenOf(server: number): ServerChild[] {
  return readdirSync("/proc").flatMap((name) => {
    const status = /^\d+$/.test(name) ? tryRead(`/proc/${name}/status`) : "";
    if (!status.includes(`PPid:\t${server}\n`)) return [];
    const prefix = "SLUICE_BATCH_TOKEN=";
    const variables = tryRead(`/proc/${name}/environ`).split("\0");
    const variable = variables.find((each) => each.startsWith(prefix));
    return [{ pid: Number(name), batchToken: variable?.slice(prefix.length) }];
  });
}

/** A file's text; empty if it is gone, as files of running processes may be at any moment. */
export function tryRead(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
