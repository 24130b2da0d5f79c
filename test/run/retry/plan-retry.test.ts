import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { cleanRun } from "../../../src/run/clean.ts";
import { type RunStorage, runStorage } from "../../../src/run/directory/run-storage.ts";
import type { JobSpec } from "../../../src/run/job/schema.ts";
import { readPlan } from "../../../src/run/plan/plan.ts";
import { abandon, abandonRetry, openRetry } from "../../../src/run/retry/abandon-retry.ts";
import { readManifest } from "../../../src/run/seal/seals.ts";
import { memoryRuns, willing } from "../memory-runs.ts";
import { errorOf, rowsOf } from "../run-fixture.ts";
import { refusing, responseOf, scriptedEngine } from "../scripted-engine.ts";

/** Answers some requests, and then no more. */
function downAfter(answers: number) {
  let left = answers;
  return scriptedEngine(1, () =>
    left-- > 0 ? responseOf("one") : new SluiceError("AUTHENTICATION_FAILED"),
  );
}

describe("what a retry asks", () => {
  it("may be asked in another way, which the next one begins with", async () => {
    const runs = memoryRuns(rowsOf(3));
    await runs.run(refusing([1], "first"));
    const change = async (stored: JobSpec): Promise<JobSpec> => ({
      ...stored,
      generation: { ...stored.generation, maxNewTokens: 99 },
    });
    await runs.retry(refusing([1], "again"), "failed", runs.dependenciesOf(), change);
    let asked: number | undefined;
    const engine = scriptedEngine(1, ({ parameters }) => {
      asked = parameters.maxNewTokens;
      return responseOf("at last");
    });
    await runs.retry(engine);
    expect(asked).toBe(99);
  });

  it("has the settings of the last call that asked the same, and the last budget", async () => {
    const runs = memoryRuns(rowsOf(3));
    await runs.run(downAfter(0));
    const retries = { maxAttempts: 1 };
    await runs.run(
      refusing([1, 2], "first"),
      runs.job({ retries, model: { engine: "fake", latencyMs: 7 } }),
    );
    const { prompt } = runs.job({ prompt: "Shout {{ text }}" });
    const budget = { tokens: 1000 };
    const changed = async (stored: JobSpec): Promise<JobSpec> => ({ ...stored, prompt, budget });
    await runs.retry(downAfter(0), "failed", runs.dependenciesOf(), changed);
    const seen: Partial<JobSpec>[] = [];
    const look = async (stored: JobSpec) => {
      seen.push(stored);
      return { ...stored, model: runs.job({ model: { engine: "fake", latencyMs: 9 } }).model };
    };
    await runs.retry(downAfter(1), "failed", runs.dependenciesOf(), look);
    await runs.resume(refusing([1, 2], "again"), look);
    const own = { prompt: runs.job().prompt, retries: { maxAttempts: 1 }, budget };
    expect(seen).toMatchObject([
      { ...own, model: { latencyMs: 7 } },
      { ...own, model: { latencyMs: 9 } },
    ]);
    expect(await runs.damages()).toEqual([]);
  });

  it("is not changed while a retry is under way", async () => {
    const runs = memoryRuns(rowsOf(3));
    await runs.run(refusing([1, 2], "first"));
    await runs.retry(downAfter(1));
    const change = async (stored: JobSpec): Promise<JobSpec> => ({
      ...stored,
      generation: { ...stored.generation, temperature: 1 },
    });
    const other = runs.retry(willing(), "failed", runs.dependenciesOf(), change);
    expect((await errorOf(other)).code).toBe("RUN_DIFFERS");
  });

  it("goes on with another way of asking the same while a retry is under way", async () => {
    const runs = memoryRuns(rowsOf(3));
    await runs.run(refusing([1], "first"));
    await runs.retry(scriptedEngine(1, () => new SluiceError("AUTHENTICATION_FAILED")));
    const change = async (stored: JobSpec): Promise<JobSpec> => ({
      ...stored,
      retries: { maxAttempts: 1 },
    });
    const busy = scriptedEngine(1, () => new SluiceError("SERVER_ERROR"));
    await runs.retry(busy, "failed", runs.dependenciesOf(), change);
    expect(busy.asked).toEqual([1]);
    expect(await runs.damages()).toEqual([]);
  });

  it("are not other rows while a retry is under way", async () => {
    const runs = memoryRuns(rowsOf(3));
    await runs.run(
      scriptedEngine(1, ({ index }) =>
        index === 1 ? new SluiceError("REQUEST_REFUSED") : responseOf("cut", "length"),
      ),
    );
    await runs.retry(downAfter(1), "finish_reason=length");
    const error = await errorOf(runs.retry(willing(), "failed"));
    expect(error).toMatchObject({ code: "RUN_DIFFERS" });
    expect(error.hint).toMatch(/sluice resume .* --abandon/);
    const engine = willing();
    await runs.retry(engine, "finish_reason=length");
    expect(engine.asked).toHaveLength(1);
  });

  it("makes way for another while it has answered nothing", async () => {
    const runs = memoryRuns(rowsOf(3));
    await runs.run(refusing([1], "first"));
    await runs.retry(downAfter(0));
    const { prompt } = runs.job({ prompt: "Shout {{ text }}" });
    const change = async (stored: JobSpec): Promise<JobSpec> => ({ ...stored, prompt });
    const result = await runs.retry(willing(), "failed", runs.dependenciesOf(), change);
    expect(result?.summary.rows).toMatchObject({ answered: 3, failed: 0 });
    expect(runs.events).toContainEqual({
      type: "notice",
      message: expect.stringContaining("the retry that was begun is dropped") as unknown,
    });
    expect(await runs.damages()).toEqual([]);
    // The number of a retry that made way is not used again.
    expect(await runs.store("/runs/out").stat("_manifest.g3.json")).toBeDefined();
  });

  it("is not dropped where its run has no seal, or was replaced with its seals", async () => {
    const runs = memoryRuns(rowsOf(4));
    const openStorage = (location: string) => runs.store(location);
    const outside = openStorage("/runs");
    const abandonIn = async (storage: RunStorage) =>
      abandon({ storage, outside, openStorage, plan: await readPlan(storage), worker: "late" });
    await runs.run(downAfter(1));
    const first = runStorage(openStorage("/runs/out"));
    await expect(abandonIn(first)).rejects.toMatchObject({ code: "RUN_OPEN" });
    await runs.run(refusing([1, 2], "first"));
    await runs.retry(downAfter(1));
    expect(await openRetry(first, await readPlan(first))).toBeDefined();
    await runs.run(willing(), runs.job(), { overwrite: true });
    await expect(abandonIn(first)).rejects.toMatchObject({ code: "COORDINATOR_LOST" });
    expect(await runs.damages()).toEqual([]);
  });

  it("is dropped with its answers when it is abandoned", async () => {
    const runs = memoryRuns(rowsOf(4), { shard: { rows: 4 } });
    await runs.run(refusing([1, 2], "first"));
    const before = await runs.results();
    await runs.retry(downAfter(1));
    const location = runs.location();
    const abandoned = await runs.clock.run(abandonRetry(location, runs.dependenciesOf()));
    expect(abandoned).toMatchObject({ generation: 2, dropped: { answers: 1 } });
    expect(await runs.results()).toEqual(before);
    expect(await runs.damages()).toEqual([]);
    expect(await runs.clock.run(abandonRetry(location, runs.dependenciesOf()))).toBeUndefined();
    await runs.clock.run(cleanRun(runs.dependenciesOf(), location, false));
    await runs.retry();
    const { bill } = (await readManifest(runs.store("/runs/out")))!;
    expect(bill?.paidTwice.lost.answers).toBe(1);
    expect(await runs.damages()).toEqual([]);
  });

  it("are only rows of a sealed run", async () => {
    const runs = memoryRuns(rowsOf(3));
    expect((await errorOf(runs.retry())).code).toBe("NOT_A_RUN");
    await runs.run(scriptedEngine(1, () => new SluiceError("AUTHENTICATION_FAILED")));
    expect((await errorOf(runs.retry())).code).toBe("RUN_OPEN");
  });

  it("are the cut answers where those are named, each kept until it is better", async () => {
    const runs = memoryRuns(rowsOf(6), { shard: { rows: 3 } });
    await runs.run(
      scriptedEngine(2, ({ index }) => {
        if (index === 4) return new SluiceError("REQUEST_REFUSED");
        return responseOf(`first ${index}`, index % 2 === 1 ? "length" : "stop");
      }),
    );
    const engine = refusing([3], "longer");
    const result = await runs.retry(engine, "finish_reason=length");
    expect(engine.asked.toSorted()).toEqual([1, 3, 5]);
    expect(await runs.answers()).toEqual([
      [0, "first 0"],
      [1, "longer 1"],
      [2, "first 2"],
      [3, "first 3"],
      [5, "longer 5"],
    ]);
    expect(await runs.letters()).toMatchObject([{ index: 4 }]);
    expect(result?.summary).toMatchObject({
      rows: { answered: 5, failed: 1 },
      errors: { REQUEST_REFUSED: 1 },
    });
    expect(await runs.damages()).toEqual([]);
  });

  it("are rows of a sample by their index", async () => {
    const runs = memoryRuns(rowsOf(40), {
      sample: 9,
      generation: { seed: 3 },
      shard: { rows: 10 },
    });
    const chosen: number[] = [];
    await runs.run(
      scriptedEngine(1, ({ index }) => {
        chosen.push(index);
        return index % 2 === 0 ? new SluiceError("REQUEST_REFUSED") : responseOf(`${index}`);
      }),
    );
    await runs.retry(scriptedEngine(1, ({ index }) => responseOf(`again ${index}`)));
    expect((await runs.results()).map(({ id }) => id)).toEqual(chosen);
    expect(await runs.damages()).toEqual([]);
  });

  it("measures its budget by the whole run", async () => {
    const runs = memoryRuns(rowsOf(20), { maxFailedRows: 0.1 });
    const first = await runs.run(refusing([1, 2], "first"));
    expect(first.exitCode).toBe(0);
    const result = await runs.retry(refusing([2], "again"));
    expect(result).toMatchObject({ exitCode: 0, summary: { sealed: true, rows: { failed: 1 } } });
  });
});
