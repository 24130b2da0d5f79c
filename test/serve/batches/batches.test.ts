import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { type BatchRecord, recordsFolder } from "../../../src/serve/batches/batch.ts";
import type { ServeInput } from "../../../src/serve/options.ts";
import type { Server } from "../../../src/serve/server.ts";
import { untilRequests } from "../../integration/served.ts";
import { sent, serverFolder, serverHere } from "../server-here.ts";

const url = "/v1/chat/completions";

/** Creates a batch of requests for model `m`; resolves to its id. */
async function created({ addresses: { inference } }: Server, requests = 1): Promise<string> {
  const body = { model: "m", messages: [{ role: "user", content: "Hi" }] };
  const form = new FormData();
  form.append("purpose", "batch");
  const lines = Array.from({ length: requests }, (_, at) =>
    JSON.stringify({ custom_id: `r${at}`, method: "POST", url, body }),
  );
  form.append("file", new Blob([lines.join("\n")]), "in.jsonl");
  const upload = await fetch(`${inference}/v1/files`, { method: "POST", body: form });
  const { id: input_file_id } = (await upload.json()) as { id: string };
  const asked = { input_file_id, endpoint: url, completion_window: "24h" };
  return ((await sent(`${inference}/v1/batches`, asked)).body as { id: string }).id;
}

const shown = async ({ addresses: { inference } }: Server, id: string) =>
  (await fetch(`${inference}/v1/batches/${id}`)).json() as Promise<JsonObject>;

async function scaled({ addresses: { management } }: Server, count: number): Promise<void> {
  const query = `min_worker=${count}&synchronous=true`;
  expect((await fetch(`${management}/models/m?${query}`, { method: "PUT" })).status).toBe(200);
}

describe("a server without the model of an earlier one", () => {
  const other = { other: { engine: "fake" } } as const;
  const startOn = (dataDirectory: string, given: ServeInput) =>
    serverHere({ dataDirectory, ...given });

  it("keeps a batch that was checked and waits for its turn", async () => {
    const folder = serverFolder();
    const limits = { maxBatchesInProgress: 1 };
    const models = { m: { model: { engine: "fake", latencyMs: 60_000 } } };
    const first = await startOn(folder, { models, limits });
    await created(first);
    const id = await created(first);
    await expect.poll(() => shown(first, id)).toMatchObject({ model: "m", in_progress_at: null });
    await first.close();
    const lines: string[] = [];
    const logger = { log: (_: string, line: string) => void lines.push(line) };
    const second = await serverHere({ dataDirectory: folder, models: other, limits }, { logger });
    await expect.poll(() => lines.join("\n")).toContain(`${id}: `);
    expect(await shown(second, id)).toMatchObject({ status: "validating", errors: null });
  });

  it.each(["finalizing", "in_progress"] as const)("ends one that was sealed %s", async (status) => {
    const folder = serverFolder();
    const first = await startOn(folder, { models: { m: { model: { engine: "fake" } } } });
    const id = await created(first);
    await expect.poll(() => shown(first, id)).toMatchObject({ status: "completed" });
    await first.close();
    // As a kill leaves it.
    const path = join(folder, recordsFolder, `${id}.json`);
    const record = JSON.parse(readFileSync(path, "utf8")) as BatchRecord;
    Object.assign(record.batch, { status, completed_at: null, output_file_id: null });
    writeFileSync(path, JSON.stringify(record));
    const second = await startOn(folder, { models: other });
    await expect
      .poll(() => shown(second, id))
      .toMatchObject({
        ...{ status: "completed", request_counts: { total: 1, completed: 1, failed: 0 } },
        output_file_id: expect.stringMatching(/^file-/),
      });
  });
});

describe("a batch for a model without workers", () => {
  it("waits for them", async () => {
    const lines: string[] = [];
    const logger = { log: (_: string, line: string) => void lines.push(line) };
    const server = await serverHere({ models: { m: { model: { engine: "fake" } } } }, { logger });
    await scaled(server, 0);
    const id = await created(server);
    await expect.poll(() => lines.join("\n")).toContain("m has no workers; the batch waits");
    await scaled(server, 1);
    const completed = { status: "completed", request_counts: { total: 1, completed: 1 } };
    await expect.poll(() => shown(server, id), { timeout: 20_000 }).toMatchObject(completed);
  });
});

describe("rows at the door of their model", () => {
  /** A batch of a model with one slot; resolves when its first row is in work. */
  async function waitingBatch(latencyMs: number, limits: ServeInput["limits"] = {}) {
    const folder = serverFolder();
    const countFile = join(folder, "asked");
    const model = { engine: "fake", capacity: 1, latencyMs, countFile } as const;
    const server = await serverHere({ dataDirectory: folder, models: { m: { model } }, limits });
    const id = await created(server, 400);
    const begun = () =>
      existsSync(countFile) ? readFileSync(countFile, "utf8").split("\n").length - 1 : 0;
    await expect.poll(begun, { timeout: 20_000 }).toBeGreaterThan(0);
    return { server, id, begun };
  }

  it("go to workers that come later", async () => {
    const { server } = await waitingBatch(1000);
    await scaled(server, 12);
    await untilRequests(server, "m", { inFlight: 12, waiting: 0 });
  });

  it("are not bound by the connections that clients may have", async () => {
    const { server, id } = await waitingBatch(10, { maxConnections: 8 });
    const counts = async () => (await shown(server, id)).request_counts;
    const all = { total: 400, completed: 400, failed: 0 };
    await expect.poll(counts, { timeout: 15_000 }).toEqual(all);
  });

  it("let those of another batch pass by turns", async () => {
    const { server, begun } = await waitingBatch(100);
    const id = await created(server, 3);
    const state = async () => (await shown(server, id)).status;
    await expect.poll(state, { timeout: 20_000 }).toBe("completed");
    expect(begun()).toBeLessThan(200);
  });

  it("are not computed after a cancel, which waits for rows in work alone", async () => {
    const { server, id, begun } = await waitingBatch(500);
    const { inference } = server.addresses;
    const before = begun();
    const startMs = performance.now();
    await fetch(`${inference}/v1/batches/${id}/cancel`, { method: "POST" });
    await expect
      .poll(() => shown(server, id), { timeout: 20_000 })
      .toMatchObject({
        ...{ status: "cancelled", request_counts: { total: 400 } },
      });
    expect(performance.now() - startMs).toBeLessThan(8000);
    expect(begun() - before).toBeLessThanOrEqual(3);
    const { error_file_id: file } = await shown(server, id);
    const errors = await (await fetch(`${inference}/v1/files/${file}/content`)).text();
    const codes = errors
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).error.code);
    expect(new Set(codes)).toEqual(new Set(["batch_cancelled"]));
  });
});
