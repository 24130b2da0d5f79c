import { describe, expect, it } from "vitest";
import { localStorage as openStorage } from "../../src/data/storage/local.ts";
import { cancelRun } from "../../src/run/cancel.ts";
import { countCancels } from "../../src/run/coordinate/coordinator.ts";
import { carriedOut, preparedRun, scratchFolder } from "./whole-run.ts";

describe("cancelRun", () => {
  it("stops a run that goes on, and tells who was asked", async () => {
    const model = { engine: "fake" as const, latencyMs: 400, capacity: 1 };
    const run = preparedRun(scratchFolder(), undefined, { model, shard: { rows: 1 } });
    const asked: (number | undefined)[] = [];
    let ending: Promise<string> | undefined;
    const result = await carriedOut(run, undefined, (event) => {
      if (event.type !== "task-end" || ending) return;
      ending = cancelRun(run.dependencies, run.location, {
        waitMs: 60_000,
        onAsked: ({ coordinator }) => asked.push(coordinator?.record.pid),
      });
    });
    const end = await ending;
    expect(result.summary).toMatchObject({ status: "CANCELED", sealed: false });
    expect({ end, asked }).toEqual({ end: "ended", asked: [1] });
  });

  it("asks nobody where nobody is at work", async () => {
    const run = preparedRun(scratchFolder());
    await carriedOut(run);
    expect(await cancelRun(run.dependencies, run.location, { waitMs: 0 })).toBe("idle");
    expect(await countCancels(openStorage(run.location.directory))).toBe(0);
  });

  it("refuses what is no run", async () => {
    const run = preparedRun(scratchFolder());
    await expect(cancelRun(run.dependencies, run.location, { waitMs: 0 })).rejects.toMatchObject({
      code: "NOT_A_RUN",
    });
  });
});
