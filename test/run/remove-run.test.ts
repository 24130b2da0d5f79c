import { describe, expect, it } from "vitest";
import { sleep } from "../../src/foundation/clock.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import { limits } from "../../src/foundation/limits.ts";
import { readPlan } from "../../src/run/plan.ts";
import { removeRun } from "../../src/run/remove-run.ts";
import { memoryRuns } from "./memory-runs.ts";
import { changedStorage, errorOf, pathsOf, rowsOf } from "./run-fixture.ts";

async function sealedRun() {
  const runs = memoryRuns(["{broken", ...rowsOf(3)], { shard: { rows: 2 } });
  await runs.run();
  const storage = runs.store("/runs/out");
  return { runs, storage, plan: await readPlan(storage), location: runs.location() };
}

describe("removeRun", () => {
  it("removes everything of the run save the spool of standard input", async () => {
    const { runs, storage, plan, location } = await sealedRun();
    await storage.replace("_sluice/stdin-abc.jsonl", Buffer.from("{}"));
    await removeRun(runs.dependenciesOf(), location, plan);
    expect(await pathsOf(storage)).toEqual(["_sluice/stdin-abc.jsonl"]);
  });

  it("removes a report, which belongs to the run", async () => {
    const runs = memoryRuns(rowsOf(2), { report: "axolotl" });
    await runs.run();
    const storage = runs.store("/runs/out");
    expect(await pathsOf(storage, "_report")).toEqual(["_report.json"]);
    await removeRun(runs.dependenciesOf(), runs.location(), await readPlan(storage));
    expect(await pathsOf(storage)).toEqual([]);
  });

  it("leaves nothing that looks finished wherever it stops, and can be repeated", async () => {
    for (let at = 0; ; at++) {
      const { runs, storage, plan, location } = await sealedRun();
      let removals = 0;
      const dependencies = runs.dependenciesOf((directory) =>
        changedStorage(runs.store(directory), (inner) => ({
          async remove(path) {
            if (removals++ === at) throw new SluiceError("STORE_FAILED");
            await inner.remove(path);
          },
        })),
      );
      const error = await removeRun(dependencies, location, plan).catch((it: SluiceError) => it);
      if (!error) break;
      expect(error.code).toBe("STORE_FAILED");
      const left = await pathsOf(storage);
      // Only the seal's own removal may leave it; as long as anything is left the plan is, too.
      if (at > 0) expect(left).not.toContain("_SUCCESS");
      const isKnown = left.includes("_sluice/plan.json");
      const others = left.filter((path) => !path.startsWith("_sluice/coordinators/"));
      expect(isKnown || others.length === 0).toBe(true);
      if (isKnown) await removeRun(runs.dependenciesOf(), location, plan);
      expect(at).toBeLessThan(60);
    }
  });

  it("leaves a run alone that took the place of the one it was to remove", async () => {
    const { runs, storage, plan, location } = await sealedRun();
    const before = await pathsOf(storage, "part-");
    const removal = removeRun(runs.dependenciesOf(), location, { ...plan, runId: "another" });
    expect((await errorOf(removal)).code).toBe("COORDINATOR_LOST");
    expect(await pathsOf(storage, "part-")).toEqual(before);
  });

  it("removes the manifest of a retry also when the first one is gone", async () => {
    const { runs, storage, plan, location } = await sealedRun();
    await storage.remove("_manifest.json");
    await storage.replace("_manifest.g2.json", Buffer.from("{}"));
    await removeRun(runs.dependenciesOf(), location, plan);
    expect(await pathsOf(storage)).toEqual([]);
  });

  it("keeps others from ruling while it works", async () => {
    const { runs, storage, plan, location } = await sealedRun();
    const rulers: number[] = [];
    const dependencies = runs.dependenciesOf((directory) =>
      changedStorage(runs.store(directory), (inner) => ({
        async remove(path) {
          const paths = await pathsOf(storage, "_sluice/coordinators/");
          if (!path.startsWith("_sluice/coordinators/")) rulers.push(paths.length);
          await inner.remove(path);
        },
      })),
    );
    await removeRun(dependencies, location, plan);
    expect(rulers.length).toBeGreaterThan(5);
    expect(Math.min(...rulers)).toBeGreaterThan(0);
  });

  it("keeps its rule however long it takes, and leaves no heartbeat behind", async () => {
    const { runs, storage, plan, location } = await sealedRun();
    let rival: Promise<SluiceError> | undefined;
    const dependencies = runs.dependenciesOf((directory) =>
      changedStorage(runs.store(directory), (inner) => ({
        async remove(path) {
          rival ??= errorOf(runs.ruleElsewhere());
          const isLast = path.startsWith("_sluice/coordinators/");
          const { heartbeatIntervalMs, coordinatorWatchMs } = limits;
          await sleep(runs.clock, isLast ? heartbeatIntervalMs : coordinatorWatchMs * 1.5);
          await inner.remove(path);
        },
      })),
    );
    await runs.clock.run(removeRun(dependencies, location, plan));
    expect((await rival)?.code).toBe("COORDINATOR_LIVES");
    expect(await pathsOf(storage)).toEqual([]);
  });

  it("names what is not the run's, and leaves everything", async () => {
    const { runs, storage, plan, location } = await sealedRun();
    await storage.replace("part-00002.jsonl", Buffer.from("{}"));
    const before = await pathsOf(storage);
    const error = await errorOf(removeRun(runs.dependenciesOf(), location, plan));
    expect([error.code, error.place.file]).toEqual(["OUTPUT_OCCUPIED", storage.location]);
    expect(await pathsOf(storage)).toEqual(before);
  });
});
