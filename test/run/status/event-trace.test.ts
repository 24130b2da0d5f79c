import { expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { eventLogPath } from "../../../src/run/directory/layout.ts";
import { EventTrace } from "../../../src/run/status/event-trace.ts";

const plan = { runId: "r", generation: 1 };
const line = (event: object) => `${JSON.stringify(event)}\n`;
const begin = (generation = 1) =>
  line({ time: "2026-01-01", type: "run-start", runId: "r", generation });
const start = (task: number, worker = "w1") =>
  line({ type: "task-start", task, worker, rows: 5, resumed: 0 });
const end = (task: number, outcome: string, more = {}) =>
  line({ type: "task-end", task, worker: "w1", outcome, failed: 2, ...more });
const progress = (done: number) => line({ type: "run-progress", done });

it("follows a stream that grows, and forgets what was committed", async () => {
  const storage = memoryStorage();
  const log = await storage.appender(eventLogPath(1));
  const write = (text: string) => log.append(Buffer.from(text));
  const trace = new EventTrace(storage);
  const tasks = async () => [...((await trace.read(plan, 1)).coordinator?.tasks ?? [])];
  const error = { code: "TIMEOUT", message: "too long", hint: "wait" };
  await write(start(0) + start(1) + end(0, "committed") + start(2));
  const torn = end(1, "failed", { error });
  await write(torn.slice(0, 20));
  expect(await tasks()).toEqual([
    [1, { worker: "w1", failedRows: 0 }],
    [2, { worker: "w1", failedRows: 0 }],
  ]);
  await write(`${torn.slice(20)}no json\n${end(2, "already-committed")}`);
  const ended = [1, { worker: "w1", outcome: "failed", failedRows: 2, error }];
  expect(await tasks()).toEqual([ended]);
  expect(await tasks()).toEqual([ended]);
});

it("begins anew with another coordinator, and does without a stream", async () => {
  const storage = memoryStorage();
  await storage.replace(eventLogPath(1), Buffer.from(start(0)));
  const trace = new EventTrace(storage);
  const tasks = async (number: number) => (await trace.read(plan, number)).coordinator?.tasks;
  expect((await tasks(1))?.size).toBe(1);
  expect((await tasks(2))?.size).toBe(0);
  await storage.replace(eventLogPath(2), Buffer.from(start(4, "w2")));
  expect((await tasks(2))?.get(4)?.worker).toBe("w2");
  expect(await tasks(0)).toBeUndefined();
});

it("knows why processes could not lead, as long as none has led", async () => {
  const storage = memoryStorage();
  const stop = line({ type: "run-stop", error: { code: "ENV_MISSING" } });
  await storage.replace(eventLogPath(0), Buffer.from(begin() + stop));
  const trace = new EventTrace(storage);
  expect((await trace.read(plan, 0)).coordinator?.stopped).toEqual({ code: "ENV_MISSING" });
  const { coordinator, joined } = await trace.read(plan, 1);
  expect([coordinator?.stopped, joined]).toEqual([undefined, []]);
});

it("follows the joining workers of one run and retry, and what each said last", async () => {
  const storage = memoryStorage();
  const worker = line({ type: "worker-start", worker: "w1" });
  const gone = line({ type: "worker-end", worker: "w1" });
  const stop = line({ type: "run-stop", error: { code: "STORE_FULL" } });
  const write = (id: string, text: string) => storage.replace(eventLogPath(id), Buffer.from(text));
  await write("06aaaaaaaaaaaaa", begin() + worker + progress(3) + progress(5));
  await write("06bbbbbbbbbbbbb", begin() + worker + gone + stop);
  await write("06ccccccccccccc", begin(2) + worker + start(1));
  await storage.replace(eventLogPath(1), Buffer.from(begin()));
  const trace = new EventTrace(storage);
  const { coordinator, joined } = await trace.read(plan, 0);
  expect(coordinator).toBeUndefined();
  expect(joined).toMatchObject([
    { progress: { done: 5 }, workers: new Set(["w1"]) },
    { stopped: { code: "STORE_FULL" }, workers: new Set() },
  ]);
  const retry = await trace.read({ ...plan, generation: 2 }, 0);
  expect(retry.joined.map(({ tasks }) => [...tasks.keys()])).toEqual([[1]]);
});
