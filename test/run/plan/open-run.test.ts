import { describe, expect, it } from "vitest";
import { localStorage as openStorage } from "../../../src/data/storage/local.ts";
import type { Storage } from "../../../src/data/storage/storage.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { Coordinator } from "../../../src/run/coordinate/coordinator.ts";
import type { RunDependencies } from "../../../src/run/dependencies.ts";
import type { JobSpec } from "../../../src/run/job/schema.ts";
import { type OpenRunOptions, openOrPlan } from "../../../src/run/plan/open-run.ts";
import { memoryRuns, willing } from "../memory-runs.ts";
import { errorOf, pathsOf, rowsOf } from "../run-fixture.ts";

const options = (changes: Partial<OpenRunOptions> = {}): OpenRunOptions => ({
  overwrite: false,
  fork: false,
  workersFor: () => 1,
  onEvent() {},
  ...changes,
});

type Runs = ReturnType<typeof memoryRuns>;
const open = (
  runs: Runs,
  job: JobSpec = runs.job(),
  changes: Partial<OpenRunOptions> = {},
  dependencies: RunDependencies = runs.dependenciesOf(),
) => runs.clock.run(openOrPlan(job, dependencies, options(changes)));

const other = (runs: Runs) =>
  runs.job({ prompt: "Tell {{ text }}", generation: { temperature: 0.5 } });

describe("openOrPlan", () => {
  it("plans a run once, and finds it the next time with the seed that it drew", async () => {
    const runs = memoryRuns(rowsOf(5));
    const first = await open(runs);
    const second = await open(runs);
    expect(second.context.plan.runId).toBe(first.context.plan.runId);
    expect(second.context.plan.seed).toBe(first.context.plan.seed);
    expect(second.job.generation).not.toHaveProperty("seed");
    expect(await pathsOf(runs.store("/runs/out"), "_sluice/probe")).toEqual([]);
  });

  it("takes layout from the plan, and operation from the job at hand", async () => {
    const runs = memoryRuns(rowsOf(5), { shard: { rows: 2 } });
    await open(runs);
    const changed = runs.job({ shard: { rows: 5 }, retries: { maxAttempts: 9 } });
    const { context, job } = await open(runs, changed);
    expect(context.plan.tasks.count).toBe(3);
    expect([job.shard.rows, job.retries.maxAttempts]).toEqual([2, 9]);
  });

  it("refuses another job, and names the keys in which it differs", async () => {
    const runs = memoryRuns(rowsOf(5));
    await open(runs);
    const error = await errorOf(open(runs, other(runs)));
    expect(error).toMatchObject({ code: "RUN_DIFFERS", exitCode: 64 });
    expect(error.message).toContain("generation.temperature, prompt.prompt");
  });

  it("refuses an input that changed, takes one that was only touched", async () => {
    const runs = memoryRuns(rowsOf(5));
    await open(runs);
    runs.touchInput();
    await open(runs);
    runs.writeInput(rowsOf(5).map((row) => row.replace("row 3", "ROW 3")));
    expect((await errorOf(open(runs))).code).toBe("INPUT_CHANGED");
    runs.writeInput(rowsOf(6));
    expect((await errorOf(open(runs))).code).toBe("INPUT_CHANGED");
  });

  it("refuses an output that holds something else", async () => {
    const runs = memoryRuns(rowsOf(2));
    await runs.store("/runs/out").replace("thesis.tex", Buffer.from("years of work"));
    const error = await errorOf(open(runs));
    expect(error.code).toBe("OUTPUT_OCCUPIED");
    expect(error.message).toContain("thesis.tex");
    expect(await pathsOf(runs.store("/runs/out"))).toEqual(["thesis.tex"]);
    const merged = memoryRuns(rowsOf(2), { output: { path: "/runs/all.jsonl" } });
    await merged.store("/runs").replace("all.jsonl", Buffer.from("{}"));
    expect((await errorOf(open(merged))).code).toBe("OUTPUT_OCCUPIED");
  });

  it("names the output where nothing can be written to it", async () => {
    const runs = memoryRuns(rowsOf(2));
    const path = `${runs.input}/out`;
    const job = runs.job({ output: { path } });
    const error = await errorOf(open(runs, job, {}, runs.dependenciesOf(openStorage)));
    expect(error).toMatchObject({
      code: "STORE_FAILED",
      place: { file: path, field: "output.path" },
      hint: expect.stringContaining("--output"),
    });
    expect(error.message).toContain("ENOTDIR");
  });

  it("names the output where no file can be created only if absent", async () => {
    const runs = memoryRuns(rowsOf(2));
    const withoutLinks = (location: string) => {
      const storage = runs.store(location);
      const createIfAbsent: Storage["createIfAbsent"] = async (path) => {
        const cause = new Error("EPERM: operation not permitted, link 'a' -> 'b'");
        const file = `${location}/${path}`;
        throw new SluiceError("STORE_UNSUITABLE", "link gives EPERM", { file, cause });
      };
      const { list, read, stat, replace, remove } = storage;
      const others = { list, read, stat, replace, remove };
      const bound = Object.entries(others).map(([name, call]) => [name, call.bind(storage)]);
      return { ...Object.fromEntries(bound), location, createIfAbsent } as Storage;
    };
    const error = await errorOf(open(runs, runs.job(), {}, runs.dependenciesOf(withoutLinks)));
    expect(error).toMatchObject({
      code: "STORE_UNSUITABLE",
      place: { file: "/runs/out", field: "output.path" },
      hint: expect.stringContaining("--output"),
    });
    expect(error.message).toContain("EPERM: operation not permitted (");
  });

  it("goes on where a planner was killed before its plan stood", async () => {
    const runs = memoryRuns(rowsOf(2));
    await runs.store("/runs/out").replace("_sluice/tasks.pending-x", Buffer.from("half"));
    expect((await open(runs)).context.plan.rows).toBe(2);
  });

  it("gives two planners at once the same plan", async () => {
    const runs = memoryRuns(rowsOf(5));
    const [first, second] = await Promise.all([open(runs), open(runs)]);
    expect(second.context.plan.runId).toBe(first.context.plan.runId);
    expect(second.context.plan.seed).toBe(first.context.plan.seed);
  });

  it("lets one of two planners of different jobs win, and refuses the other", async () => {
    const runs = memoryRuns(rowsOf(5));
    const outcomes = await Promise.allSettled([open(runs), open(runs, other(runs))]);
    const rejected = outcomes.filter(({ status }) => status === "rejected");
    expect(rejected).toMatchObject([{ reason: { code: "RUN_DIFFERS" } }]);
  });
});

describe("a run of another job that came to nothing", () => {
  const journal = "_sluice/attempts/x/g1/0/a/journal.jsonl";

  async function begun(line?: string) {
    const runs = memoryRuns(rowsOf(3));
    const { context } = await open(runs);
    const { processes } = runs.dependenciesOf();
    const { clock } = runs;
    const { storage, plan } = context;
    const leader = Coordinator.lead({ storage, clock, processes, id: "first", job: plan.job });
    const coordinator = await clock.run(leader);
    await clock.run(coordinator.end());
    await storage.replace(journal, Buffer.from(line ?? ""));
    return { runs, storage, plan };
  }

  it("is replaced, and that is told", async () => {
    const { runs, storage, plan } = await begun();
    const told: unknown[] = [];
    const { context } = await open(runs, other(runs), { onEvent: (event) => told.push(event) });
    expect(context.plan.runId).not.toBe(plan.runId);
    expect(context.plan.job.generation.temperature).toBe(0.5);
    const message = expect.stringContaining("generation.temperature, prompt.prompt");
    expect(told).toContainEqual({ type: "notice", message });
    expect(await pathsOf(storage, "_sluice/attempts")).toEqual([]);
  });

  it("stays with --fork, and where the job is the same", async () => {
    const { runs, plan } = await begun();
    expect((await open(runs)).context.plan.runId).toBe(plan.runId);
    const { location } = await open(runs, other(runs), { fork: true });
    expect(location.directory).toBe("/runs/out-2");
  });

  it("is none where it has an answer, which the hint counts", async () => {
    const runs = memoryRuns(rowsOf(3));
    await runs.run();
    const error = await errorOf(open(runs, other(runs)));
    expect(error).toMatchObject({ code: "RUN_DIFFERS" });
    expect(error.hint).toMatch(/^it has 3 of 3 rows done; .*--overwrite/);
    const paid = await begun('{"index":0,"outcome":"answered"}\n');
    expect((await errorOf(open(paid.runs, other(paid.runs)))).code).toBe("RUN_DIFFERS");
  });

  it("is none where somebody works on it", async () => {
    const { runs } = await begun();
    const { context } = await open(runs);
    const first = runs.dependenciesOf();
    const { clock } = runs;
    const { storage, plan } = context;
    const options = { storage, clock, processes: first.processes, id: "second", job: plan.job };
    const coordinator = await clock.run(Coordinator.lead(options));
    const seeing = runs.dependenciesOf();
    const processes = { ...seeing.processes, look: () => "alive" as const };
    const refused = errorOf(open(runs, other(runs), {}, { ...seeing, processes }));
    expect((await refused).code).toBe("RUN_DIFFERS");
    await clock.run(coordinator.end());
  });

  it("is kept where it gets an answer before it is led", async () => {
    const { runs, storage, plan } = await begun();
    const beforePlan = () => storage.replace(journal, Buffer.from("answered\n"));
    expect((await errorOf(open(runs, other(runs), { beforePlan }))).code).toBe("RUN_DIFFERS");
    expect((await open(runs)).context.plan.runId).toBe(plan.runId);
  });
});

describe("--fork", () => {
  it("writes beside another run, and goes on with its own the next time", async () => {
    const runs = memoryRuns(rowsOf(3));
    await open(runs);
    const first = await open(runs, other(runs), { fork: true });
    expect(first.location.directory).toBe("/runs/out-2");
    const again = await open(runs, other(runs), { fork: true });
    expect(again.context.plan.runId).toBe(first.context.plan.runId);
    expect((await open(runs, runs.job(), { fork: true })).location.directory).toBe("/runs/out");
  });

  it("names a file before its ending, and only a file", async () => {
    for (const [path, forked] of [
      ["/runs/all.jsonl", "/runs/all-2.jsonl.sluice"],
      ["/runs/out.old", "/runs/out.old-2"],
    ] as const) {
      const runs = memoryRuns(rowsOf(1), { output: { path } });
      await open(runs);
      const { location } = await open(runs, other(runs), { fork: true });
      expect(location.directory).toBe(forked);
    }
  });

  it("writes beside the run of an input that has changed", async () => {
    const runs = memoryRuns(rowsOf(3));
    await open(runs);
    runs.writeInput(rowsOf(4));
    const { context, location } = await open(runs, runs.job(), { fork: true });
    expect([location.directory, context.plan.rows]).toEqual(["/runs/out-2", 4]);
  });

  it("never takes over the plan of another job that was planned at the same moment", async () => {
    const runs = memoryRuns(rowsOf(3));
    const both = [runs.job(), other(runs)].map((job) => open(runs, job, { fork: true }));
    const opened = await Promise.all(both);
    expect(opened.map(({ location }) => location.directory).toSorted()).toEqual([
      "/runs/out",
      "/runs/out-2",
    ]);
    expect(opened[1]!.context.plan.job.generation.temperature).toBe(0.5);
  });
});

describe("--overwrite", () => {
  it("keeps the run where the new one cannot be planned", async () => {
    const runs = memoryRuns(rowsOf(3));
    await runs.run();
    const before = await pathsOf(runs.store("/runs/out"));
    const mistyped = runs.job({ input: { path: `${runs.input}x` } });
    const error = await errorOf(open(runs, mistyped, { overwrite: true }));
    expect(error.code).toBe("INPUT_MISSING");
    const beforePlan = () => Promise.reject(new SluiceError("MODEL_UNKNOWN"));
    const refused = await errorOf(open(runs, runs.job(), { overwrite: true, beforePlan }));
    expect(refused.code).toBe("MODEL_UNKNOWN");
    expect(await pathsOf(runs.store("/runs/out"))).toEqual(before);
    expect(await runs.damages()).toEqual([]);
  });

  it("removes what the run made, and begins anew", async () => {
    const runs = memoryRuns(["{broken", ...rowsOf(3)], { shard: { rows: 2 } });
    await runs.run();
    await open(runs, runs.job(), { overwrite: true });
    const left = await pathsOf(runs.store("/runs/out"));
    expect(left.filter((path) => !/^_sluice\/(plan|coordinators\/|r2\/tasks-)/.test(path))).toEqual(
      [],
    );
    const { summary } = await runs.run();
    expect(summary).toMatchObject({ sealed: true, rows: { resumed: 0 } });
  });

  it.each(["notes.txt", "part-00002.jsonl", "_dead-letters/mine.jsonl"])(
    "removes nothing where the directory holds %s as well",
    async (path) => {
      const runs = memoryRuns(rowsOf(3), { shard: { rows: 2 } });
      await runs.run();
      const store = runs.store("/runs/out");
      await store.replace(path, Buffer.from("mine"));
      const before = await pathsOf(store);
      const error = await errorOf(open(runs, runs.job(), { overwrite: true }));
      expect(error.code).toBe("OUTPUT_OCCUPIED");
      expect(error.message).toContain(path);
      expect(await pathsOf(store)).toEqual(before);
    },
  );

  it("gives the new run an id of its own, also within one second", async () => {
    const runs = memoryRuns(rowsOf(2));
    const { context } = await open(runs);
    const replaced = await open(runs, other(runs), { overwrite: true });
    expect(replaced.context.plan.runId).not.toBe(context.plan.runId);
  });

  it("removes a merged file, and the traces of retries", async () => {
    const runs = memoryRuns(["{broken", ...rowsOf(2)], { output: { path: "/runs/all.jsonl" } });
    await runs.run();
    await runs.retry(willing());
    await open(runs, runs.job(), { overwrite: true });
    expect(await pathsOf(runs.store("/runs"))).toEqual([]);
    const left = await pathsOf(runs.store("/runs/all.jsonl.sluice"));
    expect(left.filter((path) => !/^_sluice\/(plan|coordinators\/|r2\/tasks-)/.test(path))).toEqual(
      [],
    );
  });

  it("is refused while the run is being worked on", async () => {
    const runs = memoryRuns(rowsOf(2));
    const { processes, ...rest } = runs.dependenciesOf();
    const living: RunDependencies = {
      ...rest,
      processes: { ...processes, look: () => "alive" },
    };
    await open(runs);
    const storage = runs.store("/runs/out");
    await Coordinator.lead({ storage, clock: runs.clock, processes, id: "a", job: runs.job() });
    const error = await errorOf(open(runs, runs.job(), { overwrite: true }, living));
    expect(error.code).toBe("COORDINATOR_LIVES");
    expect(await pathsOf(storage, "_sluice/plan.json")).toHaveLength(1);
  });
});
