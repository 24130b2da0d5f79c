import { describe, expect, it } from "vitest";
import type { Leftover, Storage } from "../../../src/data/storage/storage.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { cleanRun } from "../../../src/run/clean.ts";
import { runStorage } from "../../../src/run/directory/run-storage.ts";
import { verifyAndMend } from "../../../src/run/seal/verify.ts";
import { memoryRuns, willing } from "../memory-runs.ts";
import { changedStorage, pathsOf, rowsOf } from "../run-fixture.ts";
import { responseOf, scriptedEngine } from "../scripted-engine.ts";

const idle = { stale: limits.staleLeftoverMs, fresh: limits.staleLeftoverMs - 1 };

/** Storage that a dead process left files in: they are named as what is written to `object`. */
function withLeftovers(inner: Storage): Storage {
  async function* found(isAsked: (object: string) => boolean): AsyncGenerator<Leftover> {
    for (const { path, bytes } of await all(inner, "tmp/")) {
      const [, age, object] = path.split("/");
      if (!isAsked(object!.replaceAll("+", "/"))) continue;
      yield { path, bytes, idleMs: idle[age as keyof typeof idle] };
    }
  }
  return changedStorage(inner, (storage) => ({
    leftovers: (prefix) => found((object) => object.startsWith(prefix)),
    leftoversOf: (paths) => found((object) => paths.includes(object)),
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

async function leave(storage: Storage, written = objects): Promise<void> {
  for (const object of written) {
    await storage.replace(`tmp/stale/${object}`, Buffer.from("torn"));
    await storage.replace(`tmp/fresh/${object}`, Buffer.from("torn"));
  }
}

/** Adds what is written to the storage, under the names that `leave` takes. */
function noting(inner: Storage, written: Set<string>): Storage {
  const note = (path: string) => written.add(path.replaceAll("/", "+"));
  return changedStorage(inner, (storage) => ({
    createIfAbsent: (path, ...rest) => note(path) && storage.createIfAbsent(path, ...rest),
    replace: (path, data) => note(path) && storage.replace(path, data),
    writer: (path) => note(path) && storage.writer(path),
    publish: (from, to) => note(to) && storage.publish(from, to),
  }));
}

const left = async (storage: Storage) =>
  (await pathsOf(storage, "tmp/")).map((path) => path.slice("tmp/".length)).sort();
const staleIn = async (storage: Storage) =>
  (await left(storage)).flatMap((path) => /^stale\/(.*)/.exec(path)?.[1] ?? []);
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

  it("goes from everywhere that a run, a retry and a mender write to", async () => {
    const runs = memoryRuns(rowsOf(3), {
      output: { path: "/runs/all.jsonl" },
      report: "axolotl",
    });
    const inside = runs.store(runs.location().directory);
    const written = new Set<string>();
    const open = (location: string) => {
      const store = runs.store(location);
      return store === inside ? noting(withLeftovers(store), written) : store;
    };
    const answers = scriptedEngine(1, ({ index }) =>
      index === 1 ? new SluiceError("REQUEST_REFUSED") : responseOf("yes"),
    );
    await runs.run(answers);
    const dependencies = runs.dependenciesOf(open);
    await runs.run(answers, runs.job(), { dependencies, overwrite: true });
    await runs.store("/runs").remove("all.jsonl");
    const [storage, outside] = [runStorage(open(runs.location().directory)), open("/runs")];
    const places = { storage, outside, openStorage: open };
    expect((await verifyAndMend(places, runs.dependenciesOf())).mended).toHaveLength(1);
    runs.writeInput(rowsOf(3).map((row) => row.replace("1", "9")));
    await runs.retry(answers, "failed", runs.dependenciesOf(open), undefined, { reread: "input" });
    expect([...written].some((path) => path.includes("+menders+"))).toBe(true);
    expect(written.size).toBeGreaterThan(20);
    await leave(inside, [...written]);
    await runs.retry(willing(), "failed", runs.dependenciesOf(open));
    // Attempts are many, and what the replaced run left waits for `sluice clean` as well.
    const ofCleaning = /^stale\/_sluice\+(r2\+attempts|attempts|coordinators)\+/;
    const stale = (await left(inside)).filter((path) => path.startsWith("stale/"));
    expect(stale.filter((path) => !ofCleaning.test(path))).toEqual([]);
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

  it("stays beside a file by input, and goes from the file", async () => {
    const runs = memoryRuns(rowsOf(3), { output: { path: "/runs/{stem}.jsonl" } });
    const open = (location: string) => withLeftovers(runs.store(location));
    await runs.run();
    const outside = runs.store("/runs");
    await leave(outside, ["rows.jsonl", "rows.jsonl.gz", "other+rows.jsonl"]);
    await cleanRun(runs.dependenciesOf(open), runs.location(), false);
    expect(await staleIn(outside)).toEqual(["other+rows.jsonl", "rows.jsonl.gz"]);
  });

  it("stays in the run directory's attempts when a run with one file goes on", async () => {
    const runs = memoryRuns(rowsOf(3), { output: { path: "/runs/all.jsonl" } });
    const open = (location: string) => withLeftovers(runs.store(location));
    await runs.run(scriptedEngine(1, () => new SluiceError("AUTHENTICATION_FAILED")));
    const outside = runs.store("/runs");
    const ofWorker = "all.jsonl.sluice+_sluice+attempts+a+part.jsonl";
    await leave(outside, ["all.jsonl", ofWorker]);
    await runs.run(willing(), runs.job(), { dependencies: runs.dependenciesOf(open) });
    expect(await staleIn(outside)).toEqual([ofWorker]);
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
