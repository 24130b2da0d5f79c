import { describe, expect, it } from "vitest";
import { sleep } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { RunStorage, runStorage } from "../../../src/run/directory/run-storage.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { type Plan, readPlan } from "../../../src/run/plan/plan.ts";
import { finishReplacement, replaceRun } from "../../../src/run/plan/replace-run.ts";
import { memoryRuns } from "../memory-runs.ts";
import { changedStorage, errorOf, pathsOf, rowsOf } from "../run-fixture.ts";

async function sealedRun(report = false) {
  const changes = { shard: { rows: 2 }, ...(report && { report: "axolotl" as const }) };
  const runs = memoryRuns(["{broken", ...rowsOf(3)], changes);
  await runs.run();
  const raw = runs.store("/runs/out");
  const plan = await readPlan(raw);
  const replace = (dependencies = runs.dependenciesOf()) =>
    replaceRun(dependencies, runs.location(), storageOf(dependencies), plan, {
      planIn: async (next) => {
        const own: Plan = { ...plan, runId: `${plan.runId}-2` };
        await next.replace("_sluice/plan.json", Buffer.from(JSON.stringify(own)));
        return { plan: own, isOurs: true };
      },
    });
  return { runs, raw, plan, replace };
}

const storageOf = ({ openStorage }: { openStorage: (place: string) => RunStorage | object }) =>
  new RunStorage(openStorage("/runs/out") as RunStorage);

/** What is left of a run: its plan, who led it, and who died while removing it. */
const traces = /^_sluice\/(plan\.json|coordinators\/.*|plans\/.*|r2\/menders\/.*)$/;

describe("replaceRun", () => {
  it("removes everything of the old run but what tells that it is over", async () => {
    const { raw, replace } = await sealedRun(true);
    await raw.replace("_sluice/stdin-abc.jsonl", Buffer.from("{}"));
    await replace();
    const left = (await pathsOf(raw)).filter((path) => !traces.test(path));
    expect(left).toEqual(["_sluice/stdin-abc.jsonl"]);
    expect(await pathsOf(raw, "_sluice/plans/")).toEqual([
      "_sluice/plans/000002.cleared",
      "_sluice/plans/000002.json",
    ]);
  });

  it("leaves the new run to stand wherever it stops, and who works on it finishes", async () => {
    let at = 0;
    for (; ; at++) {
      const { runs, raw, plan, replace } = await sealedRun();
      let removals = 0;
      const dependencies = runs.dependenciesOf((directory) =>
        changedStorage(runs.store(directory), (inner) => ({
          async remove(path) {
            if (removals++ === at) throw new SluiceError("STORE_FAILED");
            await inner.remove(path);
          },
        })),
      );
      const error = await replace(dependencies).then(
        () => undefined,
        (it: SluiceError) => it,
      );
      if (!error) break;
      const standing = runStorage(raw);
      expect((await readPlan(standing)).runId).toBe(`${plan.runId}-2`);
      await finishReplacement(runs.dependenciesOf(), runs.location(), standing);
      expect((await pathsOf(raw)).filter((path) => !traces.test(path))).toEqual([]);
      expect(at).toBeLessThan(60);
    }
    expect(at).toBeGreaterThan(10);
  });

  it("leaves a run alone that took the place of the one it was to replace", async () => {
    const { runs, raw, plan } = await sealedRun();
    await raw.replace("_sluice/plans/000002.json", Buffer.from(JSON.stringify(plan)));
    const before = await pathsOf(raw, "part-");
    const old = new RunStorage(raw, 1);
    const options = { planIn: async () => ({ plan, isOurs: true }) };
    const late = replaceRun(runs.dependenciesOf(), runs.location(), old, plan, options);
    expect((await errorOf(late)).code).toBe("COORDINATOR_LOST");
    expect(await pathsOf(raw, "part-")).toEqual(before);
  });

  it("keeps its leadership however long the plan takes", async () => {
    const { runs, raw, replace } = await sealedRun();
    let rival: Promise<SluiceError> | undefined;
    const dependencies = runs.dependenciesOf((directory) =>
      changedStorage(runs.store(directory), (inner) => ({
        async replace(path, data) {
          if (path.startsWith("_sluice/plans/")) {
            rival = errorOf(runs.ruleElsewhere());
            await sleep(runs.clock, limits.coordinatorWatchMs * 1.5);
          }
          await inner.replace(path, data);
        },
      })),
    );
    await runs.clock.run(replace(dependencies));
    expect((await rival)?.code).toBe("COORDINATOR_LIVES");
    expect(await pathsOf(raw, "part-")).toEqual([]);
  });

  it("names what is not the run's, and leaves everything", async () => {
    const { raw, replace } = await sealedRun();
    await raw.replace("part-00002.jsonl", Buffer.from("{}"));
    const before = await pathsOf(raw);
    const error = await errorOf(replace());
    expect([error.code, error.place.file]).toEqual(["OUTPUT_OCCUPIED", raw.location]);
    expect(await pathsOf(raw)).toEqual(before);
  });
});

describe("an --overwrite that was stopped before the old results were gone", () => {
  const byRow = { output: { path: "/runs/out/{index}.json" } };
  const byInput = { output: { path: "/runs/out", perInputFile: true } };

  it.each<[string, Partial<JobInput>, Partial<JobInput>]>([
    ["fewer tasks", { shard: { rows: 1 } }, { shard: { rows: 3 } }],
    ["another format", {}, { output: { path: "/runs/out", format: "csv" } }],
    ["files by row", byRow, byRow],
    ["files by input", byInput, {}],
  ])("goes on by the same command: %s", async (_what, before, after) => {
    const runs = memoryRuns(rowsOf(6));
    await runs.run(undefined, runs.job(before));
    const isResult = /^(part-|\d+\.json|rows\.jsonl)/;
    const dependencies = runs.dependenciesOf((directory) =>
      changedStorage(runs.store(directory), (inner) => ({
        async remove(path) {
          if (isResult.test(path)) throw new SluiceError("STORE_FAILED");
          await inner.remove(path);
        },
      })),
    );
    const job = runs.job(after);
    const options = { overwrite: true, dependencies };
    expect((await errorOf(runs.run(undefined, job, options))).code).toBe("STORE_FAILED");
    const { summary } = await runs.run(undefined, job, { overwrite: true });
    expect(summary).toMatchObject({ sealed: true, rows: { answered: 6 } });
    expect(await runs.damages(job)).toEqual([]);
  });

  it("keeps standard input that the old run read and the next one reads", async () => {
    const { runs, raw, plan } = await sealedRun();
    const spool = "_sluice/stdin-abc.jsonl";
    await raw.replace(spool, Buffer.from("{}"));
    const input = [{ ...plan.job.input[0]!, path: `/runs/out/${spool}` }];
    const old = { ...plan, job: { ...plan.job, input } };
    await raw.replace("_sluice/plan.json", Buffer.from(JSON.stringify(old)));
    await raw.replace("_sluice/plans/000002.json", Buffer.from(JSON.stringify(plan)));
    const dependencies = runs.dependenciesOf();
    await finishReplacement(dependencies, runs.location(), runStorage(raw), { input });
    expect(await pathsOf(raw, "_sluice/stdin-")).toEqual([spool]);
  });
});

it("a process of a run that was replaced changes nothing of the one that stands", async () => {
  const { runs, raw } = await sealedRun();
  const old = new RunStorage(raw, 1);
  await runs.run(undefined, undefined, { overwrite: true });
  const plan = await readPlan(runStorage(raw));
  for (const path of ["_sluice/plan.json", "_sluice/seals/x.json", "_sluice/workers/w.json"]) {
    await old.replace(path, Buffer.from("{}"));
  }
  const state: string[] = [];
  for await (const { path } of old.list("_sluice/")) state.push(path);
  for (const path of state) await old.remove(path);
  // What it publishes late is made again by the next who reads the seal.
  await old.replace("part-00000.jsonl", Buffer.from("late\n"));
  await old.remove("_SUCCESS");
  expect((await readPlan(runStorage(raw))).runId).toBe(plan.runId);
  await runs.run();
  expect(await runs.damages()).toEqual([]);
});
