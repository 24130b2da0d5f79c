import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { sleep } from "../../../src/foundation/clock.ts";
import { noUsage } from "../../../src/foundation/inference.ts";
import { attemptPaths } from "../../../src/run/directory/layout.ts";
import type { Plan } from "../../../src/run/plan/plan.ts";
import { JournaledRows } from "../../../src/run/status/journaled-rows.ts";
import { openCounts } from "../../../src/run/status/stopped-counts.ts";
import { answer, fail, openAttempt } from "../attempt/open-attempt.ts";
import { type PlannedRun, plannedRun, rowsOf } from "../run-fixture.ts";
import { responseOf } from "../scripted-engine.ts";

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
  const { usage, failed } = await rows.count(plan, [0, 1]);
  // The next attempt keeps nothing of a failed row but what was journaled before.
  expect(usage).toEqual({ promptTokens: 35, completionTokens: 10, cachedTokens: 0 });
  expect(failed).toBe(1);
});

describe("the counts of a status", () => {
  const half = { response: responseOf("half"), attempts: 1 };
  const wrong = { promptTokens: 100, cachedTokens: 0, completionTokens: 10 };

  /** The same of the summary of a run that stopped now. */
  const summed = ({ context }: PlannedRun) =>
    openCounts(context, new Set(), { answered: 0, usage: noUsage });

  it("are those of a summary, while several attempts go on", async () => {
    const run = await plannedRun(rowsOf(6));
    const rows = new JournaledRows(run.storage);
    const compared = async () => {
      const counts = await rows.count(run.plan, [0]);
      expect(counts).toMatchObject(await summed(run));
      return counts;
    };
    const first = await openAttempt(run);
    answer(first, 0);
    first.notePartlyAnswered(1, 0, half);
    first.noteInvalid(2, wrong);
    await first.flush();
    expect(await compared()).toMatchObject({
      ...{ answered: 1, responses: 2 },
      usage: { promptTokens: 7 + 7 + 100, completionTokens: 3 + 3 + 10 },
    });
    first.notePartlyAnswered(3, 0, half);
    fail(first, 4);
    await first.close();
    expect(await compared()).toMatchObject({ responses: 3, failed: 1 });
    // Attempts are sorted by the times in their ids.
    await run.clock.run(sleep(run.clock, 10));
    const second = await openAttempt(run);
    answer(second, 1);
    second.noteInvalid(2, wrong);
    await second.flush();
    expect(await compared()).toMatchObject({
      ...{ answered: 2, responses: 3, failed: 0 },
      usage: { promptTokens: 3 * 7 + 200, completionTokens: 3 * 3 + 20 },
    });
    answer(second, 2, 3);
    await second.close();
    expect(await compared()).toMatchObject({ answered: 4, responses: 4 });
  });
});
