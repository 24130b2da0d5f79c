import { readFileSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { localStorage } from "../../../src/data/storage/local.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import {
  Batch,
  type BatchObject,
  type BatchRecord,
  batchPaths,
} from "../../../src/serve/batches/batch.ts";
import { runBatch } from "../../../src/serve/batches/batch-run.ts";
import { serveSchema } from "../../../src/serve/options.ts";
import { scratchFolder } from "../../run/whole-run.ts";

const line = (id: string) => ({
  ...{ custom_id: id, method: "POST", url: "/v1/chat/completions" },
  body: { model: "m", messages: [{ role: "user", content: `Say ${id}` }] },
});

it("a batch that was stopped before its turn needs no cluster to name its rows", async () => {
  const folder = scratchFolder();
  const { models, batches: place } = serveSchema.parse({
    models: { m: "fake" },
    batches: { backend: "ray", ray: { address: "127.0.0.1:1" }, workers: { gpu: "a100:8" } },
  });
  const record: BatchRecord = {
    batch: { id: "batch_1", model: "m" } as BatchObject,
    stoppedBy: "expired",
    copied: { model: models.m!.model, place },
  };
  const batch = new Batch(record, localStorage(folder));
  const { input, output, failed, run } = batchPaths(batch.id);
  await mkdir(dirname(join(folder, input)), { recursive: true });
  const lines = ["a", "b", "c"].map((id) => `${JSON.stringify(line(id))}\n`);
  writeFileSync(join(folder, input), lines.join(""));
  const summary = await runBatch(batch, {
    ...{ dataDirectory: folder, baseUrl: "", token: "", slots: 1, place },
    ...{ environment: {}, clock: systemClock, logger: silentLogger, tracing: undefined },
    signal: new AbortController().signal,
  });
  expect(summary).toMatchObject({ sealed: true, rows: { total: 3, answered: 0, failed: 3 } });
  expect(readFileSync(join(folder, output), "utf8")).toBe("");
  const errors = readFileSync(join(folder, failed), "utf8").trim().split("\n");
  expect(errors.map((each) => JSON.parse(each))).toMatchObject(
    ["a", "b", "c"].map((id) => ({ custom_id: id, error: { code: "batch_expired" } })),
  );
  const { job } = JSON.parse(readFileSync(join(folder, run, "_sluice/plan.json"), "utf8"));
  expect(job.model).toMatchObject({ engine: "fake" });
});
