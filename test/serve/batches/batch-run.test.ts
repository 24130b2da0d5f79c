import { readFileSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { localStorage } from "../../../src/data/storage/local.ts";
import { type Clock, systemClock } from "../../../src/foundation/clock.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import { CancelRequest } from "../../../src/run/coordinate/coordinator.ts";
import {
  Batch,
  type BatchObject,
  type BatchRecord,
  batchPaths,
} from "../../../src/serve/batches/batch.ts";
import { runBatch } from "../../../src/serve/batches/batch-run.ts";
import { type BatchOptions, serveSchema } from "../../../src/serve/options.ts";
import { scratchFolder } from "../../run/whole-run.ts";

const line = (id: string) => ({
  ...{ custom_id: id, method: "POST", url: "/v1/chat/completions" },
  body: { model: "m", messages: [{ role: "user", content: `Say ${id}` }] },
});

/** A batch on a cluster that is not there. */
async function clusterBatch(model: string, ids: readonly string[]) {
  const { models, batches: place } = serveSchema.parse({
    models: { m: model },
    batches: { backend: "ray", ray: { address: "127.0.0.1:1" }, workers: { gpu: "a100:8" } },
  });
  const record: BatchRecord = {
    batch: { id: "batch_1", model: "m" } as BatchObject,
    stoppedBy: "expired",
    copied: { model: models.m!.model, place },
  };
  return await storedBatch(record, place, ids);
}

/** @param inputBytes as the server tells it. */
async function storedBatch(
  record: BatchRecord,
  place: BatchOptions,
  ids: readonly string[],
  inputBytes = 0,
) {
  const folder = scratchFolder();
  const batch = new Batch(record, localStorage(folder));
  const { input } = batchPaths(batch.id);
  await mkdir(dirname(join(folder, input)), { recursive: true });
  const lines = ids.map((id) => `${JSON.stringify(line(id))}\n`);
  writeFileSync(join(folder, input), lines.join(""));
  const run = (signal: AbortSignal, clock: Clock = systemClock) =>
    runBatch(batch, {
      ...{ dataDirectory: folder, baseUrl: "http://127.0.0.1:1/v1", token: "" },
      ...{ slots: 1, inputBytes, place },
      ...{ environment: {}, clock, logger: silentLogger, tracing: undefined, signal },
    });
  return { folder, batch, run };
}

it("a batch that was stopped before its turn needs no cluster to name its rows", async () => {
  const { folder, batch, run: runToEnd } = await clusterBatch("fake", ["a", "b", "c"]);
  const { output, failed, run } = batchPaths(batch.id);
  const summary = await runToEnd(new AbortController().signal);
  expect(summary).toMatchObject({ sealed: true, rows: { total: 3, answered: 0, failed: 3 } });
  expect(readFileSync(join(folder, output), "utf8")).toBe("");
  const errors = readFileSync(join(folder, failed), "utf8").trim().split("\n");
  expect(errors.map((each) => JSON.parse(each))).toMatchObject(
    ["a", "b", "c"].map((id) => ({ custom_id: id, error: { code: "batch_expired" } })),
  );
  const { job } = JSON.parse(readFileSync(join(folder, run, "_sluice/plan.json"), "utf8"));
  expect(job.model).toMatchObject({ engine: "fake" });
});

it("a batch whose predictor was changed before its end does not go on with the other", async () => {
  const ids = Array.from({ length: 300 }, (_, at) => String(at));
  const module = join(scratchFolder(), "predict.mjs");
  writeFileSync(module, "export const predict = () => [1];");
  const { run } = await clusterBatch(`predictor:${module}`, ids);
  const ending = new AbortController();
  // When the first rows are given up, and long before the last one.
  const schedule: Clock["schedule"] = (_, callback) => {
    ending.abort(new CancelRequest(0, ending.signal));
    return systemClock.schedule(20, callback);
  };
  const ended = run(ending.signal, { ...systemClock, schedule });
  await expect(ended).rejects.toMatchObject({ code: "RUN_CANCELED" });
  writeFileSync(module, "export const predict = () => [2];");
  await expect(run(new AbortController().signal)).rejects.toMatchObject({ code: "RUN_DIFFERS" });
});

it.each([
  [1000, 256],
  [2_000_000, 33],
  [60_000_000, 2],
])("a batch with rows of %i bytes has %i in flight for one slot", async (bytes, inFlight) => {
  const object = { id: "batch_1", model: "m", request_counts: { total: 2 } } as BatchObject;
  const record: BatchRecord = { batch: object, stoppedBy: "expired" };
  const { batches: place } = serveSchema.parse({ models: {} });
  const { folder, batch, run } = await storedBatch(record, place, ["a", "b"], 2 * bytes);
  await run(new AbortController().signal);
  const planPath = join(folder, batchPaths(batch.id).run, "_sluice/plan.json");
  const { job } = JSON.parse(readFileSync(planPath, "utf8"));
  expect(job.model).toMatchObject({ engine: "openai", maxInFlight: inFlight });
});
