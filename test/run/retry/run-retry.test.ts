import { describe, expect, it } from "vitest";
import { sleep } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import { commitPrefix, planPathOf } from "../../../src/run/directory/layout.ts";
import { readPlan } from "../../../src/run/plan/plan.ts";
import { abandonRetry } from "../../../src/run/retry/abandon-retry.ts";
import { resumeRetry } from "../../../src/run/retry/run-retry.ts";
import { sealRetry } from "../../../src/run/retry/seal-retry.ts";
import { runContext } from "../../../src/run/run-context.ts";
import { readManifest } from "../../../src/run/seal/seals.ts";
import { memoryRuns, willing } from "../memory-runs.ts";
import { changedStorage, errorOf, rowsOf } from "../run-fixture.ts";
import { refusing, scriptedEngine } from "../scripted-engine.ts";

describe("a retry", () => {
  it("keeps leading while it looks for the rows to ask, however long that takes", async () => {
    const runs = memoryRuns(["{broken", ...rowsOf(3)]);
    await runs.run();
    let rival: Promise<{ code: string }> | undefined;
    const dependencies = runs.dependenciesOf((location) =>
      changedStorage(runs.store(location), (inner) => ({
        async open(path) {
          if (path.endsWith("dead-letters.jsonl")) {
            rival ??= errorOf(runs.ruleElsewhere());
            await sleep(runs.clock, limits.coordinatorWatchMs * 2);
          }
          return inner.open(path);
        },
      })),
    );
    const result = await runs.retry(undefined, "failed", dependencies);
    expect((await rival)?.code).toBe("COORDINATOR_LIVES");
    expect(result).toMatchObject({ exitCode: 1, summary: { sealed: true } });
    expect(await runs.damages()).toEqual([]);
  });

  it("that another process finishes before it is resumed begins no new one", async () => {
    const runs = memoryRuns(rowsOf(4));
    await runs.run(refusing([1, 2]));
    await runs.retry(scriptedEngine(1, () => new SluiceError("AUTHENTICATION_FAILED")));
    const engine = willing();
    const resumed = await runs.resume(engine, async (job) => {
      await runs.retry(refusing([2]));
      return job;
    });
    expect(resumed).toBeUndefined();
    expect(engine.asked).toEqual([]);
    const storage = runs.store("/runs/out");
    expect(await storage.stat(planPathOf(2))).toBeDefined();
    expect(await storage.stat(planPathOf(3))).toBeUndefined();
  });

  it("is resumed elsewhere as one that is begun", async () => {
    const runs = memoryRuns(rowsOf(4));
    await runs.run(refusing([1, 2]));
    await runs.retry(scriptedEngine(1, () => new SluiceError("AUTHENTICATION_FAILED")));
    const told: unknown[] = [];
    const elsewhere = async (_job: unknown, rows: unknown) => void told.push(rows);
    const signal = new AbortController().signal;
    const options = { onEvent() {}, logger: silentLogger, signal, install: false };
    await resumeRetry(runs.location(), runs.dependenciesOf(), {
      ...options,
      backendOf: () => undefined as never,
      elsewhere: elsewhere as never,
    });
    expect(told).toEqual([{ where: "failed", unfinished: true }]);
  });

  it("that answered nothing is planned anew by a resume that changes its answers", async () => {
    const runs = memoryRuns(rowsOf(4));
    await runs.run(refusing([1, 2]));
    await runs.retry(scriptedEngine(1, () => new SluiceError("AUTHENTICATION_FAILED")));
    const engine = willing();
    const resumed = await runs.resume(engine, async (job) => ({
      ...job,
      generation: { ...job.generation, temperature: 0.5 },
    }));
    expect(resumed).toMatchObject({ exitCode: 0, summary: { sealed: true, rows: { failed: 0 } } });
    expect(engine.asked).toHaveLength(2);
  });

  it("that was dropped before its seal does not end as if it were sealed", async () => {
    const runs = memoryRuns(rowsOf(4));
    await runs.run(refusing([1, 2]));
    const storage = runs.store("/runs/out");
    const base = (await readManifest(storage))!;
    const dependencies = runs.dependenciesOf((location) =>
      changedStorage(runs.store(location), (inner) => ({
        async createIfAbsent(path, data) {
          const outcome = await inner.createIfAbsent(path, data);
          // Its process is paused while another one takes the lead.
          const isLast = path.startsWith(commitPrefix) && path.endsWith(".g2.json");
          if (isLast) await abandonRetry(runs.location(), runs.dependenciesOf());
          return outcome;
        },
      })),
    );
    runs.events.length = 0;
    const ended = await runs
      .retry(willing(), "failed", dependencies)
      .catch((error: SluiceError) => ({ error }));
    expect(ended?.error?.code).toBe("COORDINATOR_LOST");
    expect(runs.events.map(({ type }) => type)).not.toContain("run-seal");
    const plan = await readPlan(storage, 2);
    const context = runContext(runs.location(), plan, runs.dependenciesOf(), "late", storage);
    const sealing = sealRetry(context, base, { engine: null, assertLeads: async () => {} });
    expect((await errorOf(sealing)).code).toBe("COORDINATOR_LOST");
  });
});
