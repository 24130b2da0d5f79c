import { describe, expect, it } from "vitest";
import { systemClock } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { readPlan } from "../../../src/run/plan/plan.ts";
import { completeSeal } from "../../../src/run/seal/publish-seal.ts";
import { memoryRuns } from "../memory-runs.ts";
import { pathsOf, rowsOf } from "../run-fixture.ts";
import { refusing, scriptedEngine } from "../scripted-engine.ts";
import { processesOf } from "../whole-run.ts";

const mender = {
  clock: systemClock,
  random: seededRandom(1),
  processes: processesOf(1),
};

describe("completeSeal", () => {
  it.each([
    ["/runs/out", "part-00000.jsonl"],
    ["/runs/all.jsonl", "all.jsonl"],
  ])("publishes the newest seal of %s once more, where that was not done", async (path, name) => {
    const runs = memoryRuns(rowsOf(6), { shard: { rows: 3 }, output: { path } });
    await runs.run(refusing([1, 4]));
    await runs.retry(refusing([4]));
    const { directory, outside, mergedFile } = runs.location();
    const [storage, target] = [runs.store(directory), runs.store(mergedFile ? outside : directory)];
    const before = await target.read(name);
    await target.remove(name);
    const lost = ["_SUCCESS", "_manifest.g2.json", "_dead-letters/part-00001.jsonl"];
    for (const file of lost) await storage.remove(file);
    const places = { storage, outside: runs.store(outside), openStorage: runs.store.bind(runs) };
    const manifest = await completeSeal(places, await readPlan(storage), mender);
    expect(manifest?.rows).toMatchObject({ answered: 5, failed: 1 });
    expect(await target.read(name)).toEqual(before);
    expect(await pathsOf(storage, "_")).toEqual(expect.arrayContaining(lost));
    expect(await runs.damages()).toEqual([]);
  });

  it("removes what a late process published, and no file of the user", async () => {
    const runs = memoryRuns(rowsOf(2));
    await runs.run();
    const storage = runs.store("/runs/out");
    const late = ["part-00007.jsonl", "_dead-letters/part-00007.jsonl"];
    const own = [
      ...["part-7.jsonl", "part-00007.parquet", "part-all.jsonl", "part-stats/by-day.csv"],
      "_dead-letters/part-notes.txt",
    ];
    for (const path of [...late, ...own]) await storage.replace(path, Buffer.from("{}\n"));
    const places = { storage, outside: storage, openStorage: () => storage };
    const plan = await readPlan(storage);
    for (const look of ["sizes", "contents"] as const) {
      await completeSeal(places, plan, mender, look);
      const left = await pathsOf(storage);
      expect(left.filter((path) => late.includes(path))).toEqual([]);
      expect(left).toEqual(expect.arrayContaining(own));
    }
    expect((await runs.damages()).map(({ file }) => file)).toEqual(own.toSorted());
  });

  it("says nothing of a run that is not sealed", async () => {
    const runs = memoryRuns(rowsOf(2));
    await runs.run(scriptedEngine(1, () => new SluiceError("AUTHENTICATION_FAILED")));
    const storage = runs.store("/runs/out");
    const places = { storage, outside: storage, openStorage: () => storage };
    expect(await completeSeal(places, await readPlan(storage), mender)).toBeUndefined();
  });
});
