import type { SluiceError } from "../../../src/foundation/errors.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import type { RowArrangement, TaskAttempt } from "../../../src/run/attempt/attempt.ts";
import { Executor } from "../../../src/run/execute/executor.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { promptSetOf } from "../../../src/run/plan/job-prompts.ts";
import { openAttempt } from "../attempt/open-attempt.ts";
import { type PlannedRun, plannedRun } from "../run-fixture.ts";
import { type ScriptedEngine, settled } from "../scripted-engine.ts";

export interface Execution {
  run: PlannedRun;
  executor: Executor;
  completed: number[];
  failures: { task: number; error: SluiceError }[];
  low: () => number;
  attempts: TaskAttempt[];
  /** Opens an attempt at a task, its first rows suspected, and gives it to the executor. */
  add(task: number, suspects?: number): Promise<TaskAttempt>;
  /** Lets virtual time pass until all tasks are complete or have failed. */
  end(): Promise<void>;
  /** Results of a task's part after its commit. */
  results(task: number): Promise<Record<string, unknown>[]>;
  letters(task: number): Promise<Record<string, unknown>[]>;
}

interface Changes {
  job?: Partial<JobInput>;
  maxTries?: number;
  failOnRowError?: boolean;
  run?: PlannedRun;
  arrange?: RowArrangement;
}

/** An executor over a run in memory; what completes is committed at once. */
export async function execution(
  rows: readonly string[],
  engine: ScriptedEngine,
  { job = {}, maxTries = 3, failOnRowError = false, run: given, arrange }: Changes = {},
): Promise<Execution> {
  const run = given ?? (await plannedRun(rows, job));
  const { clock, plan } = run;
  const completed: number[] = [];
  const attempts: TaskAttempt[] = [];
  const commits: Promise<unknown>[] = [];
  const failures: Execution["failures"] = [];
  let low = 0;
  let ended = () => {};
  const onFailure = (attempt: TaskAttempt, error: SluiceError) => {
    if (failures.some(({ task }) => task === attempt.task.task)) return;
    failures.push({ task: attempt.task.task, error });
    executor.remove(attempt, error);
    ended();
  };
  const executor = new Executor({
    ...{ engine, clock },
    redact: (text) => text.replaceAll("s3cret", "[redacted]"),
    promptSet: promptSetOf(plan.job, plan.seed),
    random: seededRandom(3),
    maxTries,
    failOnRowError,
    ...(arrange && { arrange }),
    onComplete(attempt) {
      completed.push(attempt.task.task);
      commits.push(attempt.commit());
      ended();
    },
    onFailure,
    onLowBacklog: () => low++,
  });
  return {
    run,
    executor,
    completed,
    failures,
    attempts,
    low: () => low,
    async add(task, suspects = 0) {
      const together = Math.max(1, Math.floor(engine.capacity / 2));
      const rows = suspects === 0 ? "" : `0-${suspects - 1}`;
      const ends = { suspects: { attempt: "a", rows, together } };
      const attempt: TaskAttempt = await openAttempt(run, task, run.context, ends, {
        onFailure: (error) => onFailure(attempt, error as SluiceError),
        onDrain: () => executor.resume(),
      });
      attempts.push(attempt);
      executor.add(attempt);
      await settled();
      return attempt;
    },
    async end() {
      const isOver = () => completed.length + failures.length >= attempts.length;
      const all = new Promise<void>((resolve) => {
        ended = () => {
          if (isOver()) resolve();
        };
        ended();
      });
      await clock.run(all);
      await clock.run(Promise.all(commits));
    },
    results: (task) => run.lines(`part-0000${task}.jsonl`),
    letters: (task) => run.lines(`_dead-letters/part-0000${task}.jsonl`),
  };
}
