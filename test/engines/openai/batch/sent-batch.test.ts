import { expect, it } from "vitest";
import { AbortWatch } from "../../../../src/engines/abort-watch.ts";
import { PendingRequest } from "../../../../src/engines/openai/batch/pending-request.ts";
import { SentBatch } from "../../../../src/engines/openai/batch/sent-batch.ts";
import { SluiceError } from "../../../../src/foundation/errors.ts";
import { chatRequest, rejectionOf } from "../../engine-context.ts";

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
