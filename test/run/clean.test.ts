import { mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { localStorage as openStorage } from "../../src/data/storage/local.ts";
import { cleanRun } from "../../src/run/clean.ts";
import { runStorage } from "../../src/run/directory/run-storage.ts";
import { verifyRun } from "../../src/run/seal/verify.ts";
import {
  carriedOut,
  filesOf,
  preparedRun,
  processesOf,
  putText,
  retried,
  scratchFolder,
  textOf,
  type WholeRun,
} from "./whole-run.ts";

async function sealed(output = "out", changes = {}): Promise<WholeRun> {
  const run = preparedRun(scratchFolder(), undefined, changes, output);
  await carriedOut(run);
  return run;
}

const damagesOf = async ({ location }: WholeRun) =>
  (await verifyRun(runStorage(openStorage(location.directory)), openStorage(location.outside)))
    .damages;

const results = (run: WholeRun) => filesOf(run).filter((path) => !path.startsWith("_sluice/"));

describe("cleanRun", () => {
  it.each(["out", "y.jsonl"])("leaves a run that verifies: %s", async (output) => {
    const run = await sealed(output);
    const before = results(run);
    const { files } = await cleanRun(run.dependencies, run.location, false);
    expect(files).toBeGreaterThan(5);
    expect(await damagesOf(run)).toEqual([]);
    expect(results(run)).toEqual(before);
    const attempts = filesOf(run).filter((path) => path.includes("/attempts/"));
    const kept = [...new Set(attempts.map((path) => path.split("/").at(-1)))];
    expect(kept).toEqual(["ids.bin", "row-hashes.bin"]);
    expect(filesOf(run).filter((path) => /workers|probe/.test(path))).toEqual([]);
    const again = await cleanRun(run.dependencies, run.location, false);
    expect(again).toEqual({ files: 0, freedBytes: 0, publishedBytes: 0 });
  });

  it("counts what stays under its published name apart from what is freed", async () => {
    const sizeOf = (run: WholeRun, pattern: RegExp) =>
      filesOf(run)
        .filter((path) => pattern.test(path))
        .reduce((sum, path) => sum + Buffer.byteLength(textOf(run, path)), 0);
    const parts = await sealed();
    const published = sizeOf(parts, /^(part|_dead)/);
    const heartbeats = sizeOf(parts, /workers/);
    expect(await cleanRun(parts.dependencies, parts.location, true)).toMatchObject({
      freedBytes: heartbeats,
      publishedBytes: published,
    });
    const merged = await sealed("y.jsonl");
    const freed = sizeOf(merged, /(\/part\.jsonl|workers.*)$/);
    expect(await cleanRun(merged.dependencies, merged.location, true)).toMatchObject({
      freedBytes: freed,
    });
  });

  it("only counts in a dry run", async () => {
    const run = await sealed();
    const before = filesOf(run);
    const { files } = await cleanRun(run.dependencies, run.location, true);
    expect(filesOf(run)).toEqual(before);
    expect((await cleanRun(run.dependencies, run.location, false)).files).toBe(files);
  });

  it("removes journals that were kept, and drafts of planners", async () => {
    const run = await sealed("out", { keepJournals: true });
    putText(run, "_sluice/tasks.pending-x", "draft");
    putText(run, "_sluice/tasks-0123456789abcdef.jsonl", "of another plan");
    await cleanRun(run.dependencies, run.location, false);
    expect(filesOf(run).filter((path) => /journal|pending|0123456789abcdef/.test(path))).toEqual(
      [],
    );
    expect(await damagesOf(run)).toEqual([]);
  });

  it("leaves a retried run that verifies and can be retried again", async () => {
    for (const output of ["out", "y.jsonl"]) {
      const run = await sealed(output);
      await cleanRun(run.dependencies, run.location, false);
      await retried(run, "Say {{ text | default('nothing') }}");
      await cleanRun(run.dependencies, run.location, false);
      expect(await damagesOf(run)).toEqual([]);
      const ofMerge = /^_sluice\/generations\/2\/.*(part-|merged|ready)/;
      expect(filesOf(run).filter((path) => ofMerge.test(path))).toEqual([]);
      await retried(run, "Say {{ text | default('something') }}");
      expect(await damagesOf(run)).toEqual([]);
    }
  });

  it("refuses a run that is not sealed, also a retry that has answered", async () => {
    const run = await sealed();
    putText(run, "_sluice/tasks.pending-x", "draft");
    const cleaned = () => cleanRun(run.dependencies, run.location, false);
    const plan = JSON.parse(textOf(run, "_sluice/plan.json"));
    const attempt = `_sluice/attempts/${plan.runId.toLowerCase()}/g2/0/a`;
    for (const path of ["_sluice/generations/2", attempt]) {
      mkdirSync(join(run.location.directory, path), { recursive: true });
    }
    putText(run, "_sluice/generations/2/plan.json", JSON.stringify({ ...plan, generation: 2 }));
    putText(run, `${attempt}/journal.jsonl`, '{"index":0,"outcome":"answered","requests":[]}\n');
    await expect(cleaned()).rejects.toMatchObject({ code: "RUN_OPEN" });
    expect(filesOf(run)).toContain("_sluice/tasks.pending-x");
    rmSync(join(run.location.directory, `${attempt}/journal.jsonl`));
    expect((await cleaned()).files).toBeGreaterThan(0);
    expect(await damagesOf(run)).toEqual([]);
    putText(run, "_sluice/tasks.pending-x", "draft");
    rmSync(join(run.location.directory, "_SUCCESS"));
    rmSync(join(run.location.directory, "_sluice/seals"), { recursive: true });
    await expect(cleaned()).rejects.toMatchObject({ code: "RUN_OPEN" });
    expect(filesOf(run)).toContain("_sluice/tasks.pending-x");
  });

  it("mends published files before it removes what they are made of", async () => {
    for (const output of ["out", "y.jsonl"]) {
      const run = await sealed(output);
      const path = output === "out" ? "part-00001.jsonl" : "../y.jsonl";
      const whole = textOf(run, path);
      rmSync(join(run.location.directory, path));
      putText(run, path, whole.toUpperCase());
      await cleanRun(run.dependencies, run.location, false);
      expect(textOf(run, path)).toBe(whole);
      expect(await damagesOf(run)).toEqual([]);
    }
  });

  it.each(["workers", "menders"])(
    "keeps what results are made of while one of the %s may return",
    async (kind) => {
      const run = await sealed();
      const { clock, processes } = run.dependencies;
      const gone = {
        ...processes.self(),
        host: "elsewhere",
        worker: "w",
        status: "running",
        beat: 1,
      };
      mkdirSync(join(run.location.directory, "_sluice", kind), { recursive: true });
      putText(run, `_sluice/${kind}/w.json`, JSON.stringify(gone));
      const sources = () => filesOf(run).filter((path) => path.endsWith("/part.jsonl"));
      const before = sources();
      expect(before.length).toBeGreaterThan(0);
      const look = (identity: { host: string }) =>
        identity.host === "elsewhere" ? ("elsewhere" as const) : ("dead" as const);
      const dependencies = { ...run.dependencies, clock, processes: { ...processes, look } };
      const cleaned = await cleanRun(dependencies, run.location, false);
      expect(cleaned.mayReturn).toMatchObject({ host: "elsewhere" });
      expect(sources()).toEqual(before);
    },
  );

  it("removes the records of menders that died, also of a run that was replaced", async () => {
    const run = await sealed();
    await carriedOut(run, undefined, undefined, true);
    const menders = ["_sluice/menders/a.json", "_sluice/r2/menders/b.json"];
    for (const [at, path] of menders.entries()) {
      mkdirSync(dirname(join(run.location.directory, path)), { recursive: true });
      putText(run, path, JSON.stringify(processesOf(7 + at).self()));
    }
    const clean = (pid: number, dead: Set<number>) =>
      cleanRun({ ...run.dependencies, processes: processesOf(pid, dead) }, run.location, false);
    const leftMenders = () => filesOf(run).filter((path) => path.includes("/menders/"));
    expect(await clean(2, new Set([1, 8]))).toMatchObject({ mayReturn: { pid: 7 } });
    expect(leftMenders()).toEqual(menders.slice(0, 1));
    expect(await clean(3, new Set([1, 2, 7, 8]))).not.toHaveProperty("mayReturn");
    expect(leftMenders()).toEqual([]);
    expect(await damagesOf(run)).toEqual([]);
  });

  it("removes nothing where a published file is missing or too short for good", async () => {
    for (const output of ["out", "y.jsonl"]) {
      const run = await sealed(output);
      const path = output === "out" ? "part-00001.jsonl" : "../y.jsonl";
      putText(run, path, textOf(run, path).slice(1));
      for (const file of filesOf(run)) {
        if (file.endsWith("/part.jsonl")) rmSync(join(run.location.directory, file));
      }
      const before = filesOf(run);
      await expect(cleanRun(run.dependencies, run.location, false)).rejects.toMatchObject({
        code: "RUN_DAMAGED",
        place: { file: path.replace("../", "") },
      });
      expect(filesOf(run)).toEqual(before);
    }
  });

  it("refuses while somebody works on the run", async () => {
    const run = await sealed();
    const heartbeat = filesOf(run).find((path) => path.endsWith(".heartbeat"))!;
    putText(run, heartbeat, '{"beat":9,"ended":false}\n');
    const another = { ...run.dependencies, processes: processesOf(2) };
    await expect(cleanRun(another, run.location, false)).rejects.toMatchObject({
      code: "COORDINATOR_LIVES",
    });
  });
});
