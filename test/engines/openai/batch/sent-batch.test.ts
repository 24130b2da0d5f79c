import { expect, it } from "vitest";
import { AbortWatch } from "../../../../src/engines/abort-watch.ts";
import type { ProviderBatch } from "../../../../src/engines/openai/batch/objects.ts";
import { PendingRequest } from "../../../../src/engines/openai/batch/pending-request.ts";
import type { Provider } from "../../../../src/engines/openai/batch/provider.ts";
import { SentBatch } from "../../../../src/engines/openai/batch/sent-batch.ts";
import { batchDefaults } from "../../../../src/engines/openai/batch/settings.ts";
import { SluiceError } from "../../../../src/foundation/errors.ts";
import { chatRequest, rejectionOf } from "../../engine-context.ts";
import { ManualClock } from "../../manual-clock.ts";
import { MemoryRecords } from "./memory-records.ts";

const hourMs = 3_600_000;

it("a batch is looked at after a twentieth of its age, and each 5 minutes at least", async () => {
  const clock = new ManualClock();
  const closed = new AbortController();
  const looksMs: number[] = [];
  const batch: ProviderBatch = {
    ...{ id: "batch_1", status: "in_progress", createdAt: 0, inputFile: "file-1" },
    ...{ outputFile: undefined, errorFile: undefined, errors: [], metadata: {} },
    counts: { total: 1, completed: 0, failed: 0 },
  };
  const provider = {
    create: async () => ({ batch, isOnly: true }),
    async look() {
      looksMs.push(clock.monotonic());
      return batch;
    },
  } as unknown as Provider;
  const request = await PendingRequest.of({
    ...{ request: chatRequest(0), signal: closed.signal, watch: new AbortWatch() },
    body: () => "{}",
  });
  const record = {
    ...{ key: "k", task: 0, number: 1, url: request.url, inputFile: "file-1", inputCreatedAt: 0 },
    requests: [request.id],
  };
  const sent = new SentBatch(record, false, {
    ...{ provider, records: new MemoryRecords(), clock, settings: batchDefaults },
    signal: closed.signal,
  });
  sent.attach(request);
  const left = [expect(sent.follow()).rejects.toThrow(), expect(request.answer).rejects.toThrow()];
  await expect.poll(() => clock.timers).toBe(1);
  await clock.advance(hourMs);
  const gapsMs = looksMs.map((atMs, at) => atMs - (looksMs[at - 1] ?? 0));
  expect(looksMs.length).toBeLessThan(75);
  expect(looksMs.length).toBeGreaterThan(65);
  expect(gapsMs[0]).toBe(15_000);
  expect(gapsMs).toEqual(gapsMs.toSorted((one, other) => one - other));
  expect(gapsMs.at(-1)).toBeLessThanOrEqual(hourMs / 20);
  await clock.advance(23 * hourMs);
  expect(looksMs.at(-1)! - looksMs.at(-2)!).toBe(300_000);
  closed.abort(new Error("closed"));
  await Promise.all(left);
});

it("a batch holds no id of its requests once all of them are settled", async () => {
  const { signal } = new AbortController();
  const watch = new AbortWatch();
  const pending = (row: number) =>
    PendingRequest.of({ request: chatRequest(row), signal, watch, body: () => "{}" });
  const requests = await Promise.all([0, 1, 2].map(pending));
  const ids = requests.map(({ id }) => id);
  const record = { key: "k", task: 0, number: 1, url: "/v1/chat/completions", requests: ids };
  const sent = { ...record, inputFile: "file-1", inputCreatedAt: 0 };
  const batch = new SentBatch(sent, false, {} as never);
  const late = requests.pop()!;
  for (const request of requests) expect(batch.attach(request)).toBe(true);
  const failed = requests.map(({ answer }) => rejectionOf(answer));
  batch.reject(new SluiceError("BATCH_LOST"));
  await Promise.all(failed);
  expect(batch.attach(await pending(0))).toBe(false);
  expect(batch.record.requests).toHaveLength(3);
  expect(batch.attach(late)).toBe(true);
  late.answer.catch(() => {});
  batch.reject(new SluiceError("BATCH_LOST"));
  expect(batch.record).toMatchObject({ number: 1, requests: [] });
  expect(batch.state.requests).toBe(3);
});
