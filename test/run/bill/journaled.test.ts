import { describe, expect, it } from "vitest";
import { noPaidAnswers } from "../../../src/run/bill/costs.ts";
import {
  journaledAnswers,
  journaledAttempts,
  openTaskCounts,
} from "../../../src/run/bill/journaled.ts";
import { answer, openAttempt } from "../attempt/open-attempt.ts";
import { plannedRun, rowsOf } from "../run-fixture.ts";
import { responseOf } from "../scripted-engine.ts";

describe("journaledAnswers", () => {
  it("has each answer once, also wrong ones and those of unfinished rows", async () => {
    const run = await plannedRun(rowsOf(4), { shard: { rows: 4 } });
    const first = await openAttempt(run);
    answer(first, 0, 1);
    first.noteInvalid(2, { promptTokens: 100, cachedTokens: 0, completionTokens: 10 });
    first.notePartlyAnswered(3, 0, { response: responseOf("half"), attempts: 1 });
    await first.close();
    const second = await openAttempt(run);
    answer(second, 2);
    await second.close();
    const attempts = await journaledAttempts(run.context);
    expect([...attempts.keys()]).toEqual([0]);
    expect(attempts.get(0)).toHaveLength(2);
    expect(await journaledAnswers(run.context, 0, attempts.get(0)!)).toEqual({
      answers: 5,
      promptTokens: 3 * 7 + 100 + 7,
      cachedTokens: 0,
      completionTokens: 3 * 3 + 10 + 3,
    });
  });

  it("come with the rows and requests that need not be asked again", async () => {
    const run = await plannedRun(rowsOf(4));
    const [first, second] = [await openAttempt(run), await openAttempt(run)];
    for (const attempt of [first, second]) {
      answer(attempt, 0);
      for (const at of [0, 2]) {
        attempt.notePartlyAnswered(3, at, { response: responseOf("a part"), attempts: 1 });
      }
      await attempt.close();
    }
    const attempts = (await journaledAttempts(run.context)).get(0)!;
    const counts = await openTaskCounts(run.context, 0, attempts);
    expect(counts).toMatchObject({ answered: 1, filtered: 0, responses: 3 });
  });

  it("takes a journal that is gone for an empty one", async () => {
    const run = await plannedRun(rowsOf(1));
    expect(await journaledAnswers(run.context, 0, ["gone"])).toEqual(noPaidAnswers);
  });
});
