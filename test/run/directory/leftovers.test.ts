import { describe, expect, it } from "vitest";
import type { Leftover, Storage } from "../../../src/data/storage/storage.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { cleanRun } from "../../../src/run/clean.ts";
import { memoryRuns, willing } from "../memory-runs.ts";
import { changedStorage, pathsOf, rowsOf } from "../run-fixture.ts";
import { scriptedEngine } from "../scripted-engine.ts";

const idle = { stale: limits.staleLeftoverMs, fresh: limits.staleLeftoverMs - 1 };

/** Storage that a dead process left files in: they are named as what is written to `object`. */
function withLeftovers(inner: Storage): Storage {
  return changedStorage(inner, (storage) => ({
    async *leftovers(prefix: string): AsyncGenerator<Leftover> {
      for (const { path, bytes } of await all(storage, "tmp/")) {
        const [, age, object] = path.split("/");
        const isAsked = object!.replaceAll("+", "/").startsWith(prefix);
        if (isAsked) yield { path, bytes, idleMs: idle[age as keyof typeof idle] };
      }
    },
    async *list(prefix: string) {
      for (const file of await all(storage, prefix)) {
        if (!file.path.startsWith("tmp/") || prefix === "tmp/") yield file;
      }
    },
  }));
}

async function all(storage: Storage, prefix: string) {
  const files = [];
  for await (const file of storage.list(prefix)) files.push(file);
  return files;
}

const objects = ["part-00000.jsonl", "_sluice+commits+0.json", "_sluice+attempts+a+part.jsonl"];

async function leave(storage: Storage): Promise<void> {
  for (const object of objects) {
    await storage.replace(`tmp/stale/${object}`, Buffer.from("torn"));
    await storage.replace(`tmp/fresh/${object}`, Buffer.from("torn"));
  }
}

const left = async (storage: Storage) =>
  (await pathsOf(storage, "tmp/")).map((path) => path.slice("tmp/".length)).sort();
const freshOnes = objects.map((object) => `fresh/${object}`).sort();

describe("what dead processes left of files that they were writing", () => {
  it("goes when the run goes on, save for attempts and what may still be written", async () => {
    const runs = memoryRuns(rowsOf(3));
    const open = (location: string) => withLeftovers(runs.store(location));
    await runs.run(scriptedEngine(1, () => new SluiceError("AUTHENTICATION_FAILED")));
    await leave(runs.store("/runs/out"));
    await runs.run(willing(), runs.job(), { dependencies: runs.dependenciesOf(open) });
    const stays = [...freshOnes, "stale/_sluice+attempts+a+part.jsonl"];
    expect(await left(runs.store("/runs/out"))).toEqual(stays);
  });

  it("goes with sluice clean, also beside a merged file, and is counted", async () => {
    const runs = memoryRuns(rowsOf(3), { output: { path: "/runs/all.jsonl" } });
    const open = (location: string) => withLeftovers(runs.store(location));
    await runs.run();
    const [inside, outside] = [runs.store("/runs/all.jsonl.sluice"), runs.store("/runs")];
    await cleanRun(runs.dependenciesOf(open), runs.location(), false);
    await leave(inside);
    await outside.replace("tmp/stale/all.jsonl", Buffer.from("torn"));
    await outside.replace("tmp/stale/mine.jsonl", Buffer.from("torn"));
    const dry = await cleanRun(runs.dependenciesOf(open), runs.location(), true);
    expect(dry).toMatchObject({ files: 4, freedBytes: 16 });
    const cleaning = await cleanRun(runs.dependenciesOf(open), runs.location(), false);
    expect(cleaning).toMatchObject({ files: 4, freedBytes: 16 });
    expect(await left(inside)).toEqual(freshOnes);
    expect(await left(outside)).toEqual(["stale/mine.jsonl"]);
  });

  it("stops no run where the store refuses", async () => {
    const runs = memoryRuns(rowsOf(3));
    await runs.run(scriptedEngine(1, () => new SluiceError("AUTHENTICATION_FAILED")));
    const open = (location: string) =>
      changedStorage(runs.store(location), () => ({
        // biome-ignore lint/correctness/useYield: it fails before
        async *leftovers() {
          throw new SluiceError("STORE_FULL");
        },
      }));
    const { summary } = await runs.run(willing(), runs.job(), {
      dependencies: runs.dependenciesOf(open),
    });
    expect(summary.sealed).toBe(true);
  });
});
