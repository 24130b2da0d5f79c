import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { assertStands, RunStorage, runStorage } from "../../../src/run/directory/run-storage.ts";
import { storageConformance } from "../../conformance/storage-conformance.ts";
import { errorOf, pathsOf } from "../run-fixture.ts";

const bytes = Buffer.from("{}");

for (const number of [1, 2]) {
  const make = () => new RunStorage(memoryStorage(), number);
  storageConformance(`the storage of run ${number}`, make);
}

describe("RunStorage", () => {
  it("gives each run of a directory its own state, and all the same results", async () => {
    const raw = memoryStorage();
    const [first, second] = [new RunStorage(raw, 1), new RunStorage(raw, 2)];
    for (const [number, run] of [first, second].entries()) {
      await run.replace("_sluice/plan.json", bytes);
      await run.replace("_sluice/commits/0.json", bytes);
      await run.replace(`part-0000${number}.jsonl`, bytes);
    }
    await second.replace("_sluice/stdin-a.jsonl", bytes);
    const parts = ["part-00000.jsonl", "part-00001.jsonl"];
    for (const run of [first, second]) {
      expect(await pathsOf(run, "part-")).toEqual(parts);
      expect(await pathsOf(run, "_sluice/commits/")).toEqual(["_sluice/commits/0.json"]);
      expect(await pathsOf(run, "_sluice/stdin-")).toEqual(["_sluice/stdin-a.jsonl"]);
    }
    expect(await pathsOf(first)).toEqual(["_sluice/commits/0.json", "_sluice/plan.json", ...parts]);
    expect(await pathsOf(raw)).toContain("_sluice/r2/commits/0.json");
    expect(await pathsOf(raw)).toContain("_sluice/plans/000002.json");
  });

  it("is of the run that stands when it is first used, and stays so", async () => {
    const raw = memoryStorage();
    const early = runStorage(raw);
    expect(await early.number).toBe(1);
    await raw.replace("_sluice/plans/000002.json", bytes);
    expect(await early.number).toBe(1);
    expect(await runStorage(raw).number).toBe(2);
    expect((await errorOf(assertStands(early))).code).toBe("COORDINATOR_LOST");
    await assertStands(runStorage(raw));
  });

  it("knows which runs before it may have left something", async () => {
    const raw = memoryStorage();
    expect(await runStorage(raw).oldestLeft()).toBeUndefined();
    for (const number of [2, 3]) {
      await raw.replace(`_sluice/plans/00000${number}.json`, bytes);
    }
    expect(await runStorage(raw).oldestLeft()).toBe(1);
    await new RunStorage(raw, 2).noteCleared();
    expect(await runStorage(raw).oldestLeft()).toBe(2);
    await runStorage(raw).noteCleared();
    expect(await runStorage(raw).oldestLeft()).toBeUndefined();
  });
});
