import { expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { attemptPaths } from "../../../src/run/directory/layout.ts";
import type { Plan } from "../../../src/run/plan/plan.ts";
import { JournaledRows } from "../../../src/run/status/journaled-rows.ts";

const plan = { runId: "20300101T000000Z", generation: 1 } as Plan;

it("counts answers of open tasks as they come, those that were taken over once", async () => {
  const storage = memoryStorage();
  const journal = (task: number, attempt: string) =>
    storage.appender(attemptPaths(task, plan, attempt).journal);
  const requests = '"requests":[{"promptTokens":7,"tokens":[2]}]';
  const answer = (index: number) =>
    `{"index":${index},"outcome":"answered",${requests},"answer":"x"}\n`;
  const put = async (file: Awaited<ReturnType<typeof journal>>, text: string) =>
    file.append(Buffer.from(text));
  const rows = new JournaledRows(storage);
  expect((await rows.count(plan, [0, 1])).answered).toBe(0);
  const first = await journal(0, "a");
  await put(first, answer(0) + answer(1) + answer(2).slice(0, 9));
  await put(await journal(1, "b"), `{"index":5,"outcome":"failed",${requests}}\n${answer(6)}`);
  expect((await rows.count(plan, [0, 1])).answered).toBe(3);
  const second = await journal(0, "c");
  expect((await rows.count(plan, [0, 1])).answered).toBe(3);
  await put(second, answer(0) + answer(1) + answer(2) + answer(3));
  expect((await rows.count(plan, [0, 1])).answered).toBe(5);
  expect((await rows.count(plan, [1])).answered).toBe(1);
  expect((await rows.count(plan, [0, 1])).answered).toBe(5);
  const { usage } = await rows.count(plan, [0, 1]);
  expect(usage).toEqual({ promptTokens: 42, completionTokens: 12, cachedTokens: 0 });
});
