import { createHash } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { localStorage } from "../src/data/storage/local.ts";
import { systemClock } from "../src/foundation/clock.ts";
import { silentLogger } from "../src/foundation/logger.ts";
import { systemRandom } from "../src/foundation/random.ts";
import { type Commit, noCounts } from "../src/run/attempt/commit.ts";
import { attemptPaths, commitPath, partPath, partWidth } from "../src/run/directory/layout.ts";
import { recordBytes } from "../src/run/directory/records.ts";
import { loadJob } from "../src/run/job/load.ts";
import { openOrPlan } from "../src/run/plan/open-run.ts";
import type { Plan } from "../src/run/plan/plan.ts";
import { localInputs } from "../test/local-inputs.ts";

/** The plan of the run that `directory` is to hold: one row a task. Nothing is forced to disk. */
export async function planOneRowTasks(input: string, directory: string): Promise<Plan> {
  const flags = { input, model: "fake", prompt: "{{ text }}", output: directory };
  const sets = ["shard.rows=1", "keepJournals=true", "generation.seed=1"];
  const { job } = await loadJob({ environment: {}, workingDirectory: "/", flags, sets });
  const identity = { host: "", bootId: "", pid: 0, startTime: "" };
  const { context } = await openOrPlan(
    job,
    {
      ...{ clock: systemClock, random: systemRandom, logger: silentLogger, software: "bench" },
      openStorage: (location) => localStorage(location, { durable: false }),
      inputs: localInputs,
      processes: { self: () => identity, look: () => "dead" },
    },
    { overwrite: false, fork: false, workersFor: () => 1, onEvent() {} },
  );
  return context.plan;
}

/** Writes what workers leave behind when they committed every task of a plan but the last. */
export function commitAllButLast(plan: Plan, input: string, directory: string): void {
  const lines = readFileSync(input, "utf8").trimEnd().split("\n");
  for (let task = 0; task < plan.tasks.count - 1; task++) {
    const row = `${lines[task]!.slice(0, -1)},"answer":"amber anchor apple"}\n`;
    const { part } = attemptPaths(task, plan, "bench");
    write(directory, part, row);
    const { count } = plan.tasks;
    linkSync(join(directory, part), join(directory, partPath(task, partWidth(count))));
    write(directory, commitPath(task, plan), recordBytes(commitOf(task, plan, part, row)));
  }
}

/** Takes back what a run did that carried on from there. */
export function forgetLast(plan: Plan, directory: string): void {
  const last = plan.tasks.count - 1;
  const attempts = dirname(dirname(attemptPaths(last, plan, "any").part));
  const part = partPath(last, partWidth(plan.tasks.count));
  const seal = ["_manifest.json", "_SUCCESS", "_sluice/coordinators", "_sluice/workers"];
  for (const path of [attempts, part, commitPath(last, plan), ...seal]) {
    rmSync(join(directory, path), { recursive: true, force: true });
  }
}

function write(directory: string, path: string, data: string | Buffer): void {
  const file = join(directory, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, data);
}

function commitOf(task: number, plan: Plan, path: string, row: string): Commit {
  const sha256 = createHash("sha256").update(row).digest("hex");
  const now = new Date(0).toISOString();
  return {
    task,
    ...{ run: plan.runId, generation: 1, attempt: "bench", earlierAttempts: 0, worker: "bench" },
    part: { path, sha256, bytes: row.length },
    ...{ deadLetters: null, ids: null, cutRows: null },
    ...noCounts,
    rows: { total: 1, answered: 1, filtered: 0, failed: 0, results: 1 },
    requests: { planned: 1, answered: 1 },
    ...{ startedAt: now, committedAt: now, busySeconds: 0 },
  };
}
