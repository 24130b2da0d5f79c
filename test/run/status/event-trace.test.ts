import { expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { eventLogPath } from "../../../src/run/directory/layout.ts";
import { EventTrace } from "../../../src/run/status/event-trace.ts";

const start = (task: number, worker = "w1") =>
  `${JSON.stringify({ type: "task-start", task, worker, rows: 5, resumed: 0 })}\n`;
const end = (task: number, outcome: string, more = {}) =>
  `${JSON.stringify({ type: "task-end", task, worker: "w1", outcome, failed: 2, ...more })}\n`;

it("follows a log that grows, and forgets what was committed", async () => {
  const storage = memoryStorage();
  const log = await storage.appender(eventLogPath(1));
  const write = (text: string) => log.append(Buffer.from(text));
  const trace = new EventTrace(storage);
  const error = { code: "TIMEOUT", message: "too long", hint: "wait" };
  await write(start(0) + start(1) + end(0, "committed") + start(2));
  const torn = end(1, "failed", { error });
  await write(torn.slice(0, 20));
  expect([...(await trace.read(1))]).toEqual([
    [1, { worker: "w1", failedRows: 0 }],
    [2, { worker: "w1", failedRows: 0 }],
  ]);
  await write(`${torn.slice(20)}no json\n${end(2, "already-committed")}`);
  expect([...(await trace.read(1))]).toEqual([
    [1, { worker: "w1", outcome: "failed", failedRows: 2, error }],
  ]);
  expect((await trace.read(1)).size).toBe(1);
});

it("begins anew with another coordinator, and does without a log", async () => {
  const storage = memoryStorage();
  await storage.replace(eventLogPath(1), Buffer.from(start(0)));
  const trace = new EventTrace(storage);
  expect((await trace.read(1)).size).toBe(1);
  expect((await trace.read(2)).size).toBe(0);
  await storage.replace(eventLogPath(2), Buffer.from(start(4, "w2")));
  expect((await trace.read(2)).get(4)?.worker).toBe("w2");
});
