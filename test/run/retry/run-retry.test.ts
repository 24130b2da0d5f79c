import { describe, expect, it } from "vitest";
import { sleep } from "../../../src/foundation/clock.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { memoryRuns } from "../memory-runs.ts";
import { changedStorage, errorOf, rowsOf } from "../run-fixture.ts";

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
});
