import type { Storage } from "../data/storage/storage.ts";
import { formatIndexSet, rangesOf } from "../foundation/index-set.ts";
import { type AttemptCounts, addCounts, type Commit, type ErrorCounts } from "./attempt/commit.ts";
import { type LookOptions, lookAtLives, type RunLives } from "./coordinate/lives.ts";
import { cancelPrefix, planPathOf, taskAttemptsPrefix } from "./layout.ts";
import { type Plan, readPlan } from "./plan.ts";
import { readJson } from "./records.ts";
import { withinBudget } from "./run-job.ts";
import { committedTasks, readCommits } from "./seal/commits.ts";
import { type Manifest, readManifest } from "./seal/manifest.ts";
import type { StateWord } from "./state-words.ts";

/** How far a run is. */
export interface RunStatus {
  name: string | null;
  runId: string;
  /** 1, or the number of the retry that is meant. */
  generation: number;
  state: StateWord;
  /** Why it is so, in a few words; null where the state says all. */
  reason: string | null;
  /** ISO 8601; when it was planned, and when it was sealed. */
  createdAt: string;
  sealedAt: string | null;
  /** Since it was planned. */
  ageSeconds: number;
  /** Where it lies. */
  location: string;
  tasks: Record<StateWord | "total", number>;
  /** Outcomes of committed tasks. */
  rows: { total: number; answered: number; filtered: number; failed: number };
  /** Dead letters by code. */
  errors: ErrorCounts;
  usage: AttemptCounts["usage"];
  /** Tasks without a commit, as an index set: empty once all are committed. */
  openTasks: string;
}

/** How far one task is. */
export interface TaskStatus {
  task: number;
  /** The attempt that counts: the committed one, else the latest. */
  id: string | null;
  state: StateWord;
  /** `0` once it is committed; the code of what stopped it, where that is known. */
  code: string | null;
  rows: number | null;
  failed: number | null;
  worker: string | null;
}

/** How far one worker is. */
export interface WorkerStatus {
  id: string;
  state: StateWord;
  host: string;
  pid: number;
  engine: string;
  device: string;
}

export interface StatusReport {
  run: RunStatus;
  tasks: TaskStatus[];
  workers: WorkerStatus[];
}

/** Everything that was read of a run at one moment. */
interface Seen {
  plan: Plan;
  /** The seal, where it is that of `plan`. */
  sealed: Manifest | undefined;
  lives: RunLives;
  committed: ReadonlySet<number>;
  /** Latest attempt at each task without a commit. */
  attempts: ReadonlyMap<number, string>;
  /** Ids of the workers that live, the oldest first. */
  atWork: readonly string[];
}

const listsAtOnce = 32;

/** Reads how far a run is; asked again, it reads only what is new. */
export class StatusReader {
  readonly #storage: Storage;
  readonly #options: LookOptions;
  /** Commits never change, so that each is read once. */
  readonly #commits = new Map<number, Commit>();
  #counts: AttemptCounts | undefined;
  #generation = 0;

  constructor(storage: Storage, options: LookOptions) {
    this.#storage = storage;
    this.#options = options;
  }

  /** @throws SluiceError `NOT_A_RUN`, `RUN_DAMAGED`. */
  async read(options: { tasks?: boolean } = {}): Promise<StatusReport> {
    const seen = await this.#look();
    const { plan, sealed, committed } = seen;
    if (this.#generation !== plan.generation) this.#commits.clear();
    this.#generation = plan.generation;
    // A seal holds the sums already.
    if (!sealed || options.tasks) await this.#readCommits(plan, committed);
    const verdict = await verdictOf(this.#storage, seen);
    const tasks = options.tasks ? this.#tasksOf(seen, verdict) : [];
    return {
      run: this.#runOf(seen, verdict),
      tasks,
      workers: seen.lives.workers.map(workerStatus),
    };
  }

  async #look(): Promise<Seen> {
    const plan = await latestPlan(this.#storage);
    const lives = await lookAtLives(this.#storage, this.#options);
    // Read after the processes: what ends in between is then seen as sealed, not as died.
    const manifest = await readManifest(this.#storage);
    const sealed = manifest?.generation === plan.generation ? manifest : undefined;
    const committed = sealed
      ? new Set(Array(plan.tasks.count).keys())
      : await committedTasks(this.#storage, plan);
    return {
      plan,
      sealed,
      lives,
      committed,
      attempts: await latestAttempts(this.#storage, plan, committed),
      atWork: lives.workers
        .filter((worker) => worker.lives)
        .map(({ record }) => record.worker)
        .sort(),
    };
  }

  async #readCommits(plan: Plan, committed: ReadonlySet<number>): Promise<void> {
    const fresh = [...committed].filter((task) => !this.#commits.has(task));
    for await (const commit of readCommits(this.#storage, plan, fresh)) {
      this.#commits.set(commit.task, commit);
      this.#counts = this.#counts ? addCounts(this.#counts, commit) : commit;
    }
  }

  #runOf(seen: Seen, verdict: Verdict): RunStatus {
    const { plan, sealed, committed } = seen;
    const counts = sealed ?? (this.#commits.size > 0 ? this.#counts : undefined);
    const { answered = 0, filtered = 0, failed = 0 } = counts?.rows ?? {};
    const tasks = { failed: 0, canceled: 0, successful: 0, running: 0, pending: 0, total: 0 };
    for (let task = 0; task < plan.tasks.count; task++) tasks[stateOfTask(task, seen, verdict)]++;
    tasks.total = plan.tasks.count;
    const open = Array.from({ length: plan.tasks.count }, (_, task) => task);
    return {
      name: plan.job.name ?? null,
      runId: plan.runId,
      generation: plan.generation,
      state: verdict.state,
      reason: verdict.reason,
      createdAt: plan.createdAt,
      sealedAt: sealed?.sealedAt ?? null,
      ageSeconds: Math.max(0, (this.#options.clock.now() - Date.parse(plan.createdAt)) / 1000),
      location: this.#storage.location,
      tasks,
      rows: { total: sealed?.rows.total ?? plan.rows, answered, filtered, failed },
      errors: counts?.errors ?? {},
      usage: counts?.usage ?? { promptTokens: 0, cachedTokens: 0, completionTokens: 0 },
      openTasks: formatIndexSet(rangesOf(open.filter((task) => !committed.has(task)))),
    };
  }

  #tasksOf(seen: Seen, verdict: Verdict): TaskStatus[] {
    return Array.from({ length: seen.plan.tasks.count }, (_, task) => {
      const commit = this.#commits.get(task);
      const state = stateOfTask(task, seen, verdict);
      return {
        task,
        id: commit?.attempt ?? seen.attempts.get(task) ?? null,
        state,
        code: commit ? "0" : state === "failed" ? verdict.code : null,
        rows: commit?.rows.total ?? null,
        failed: commit?.rows.failed ?? null,
        worker: commit?.worker ?? (state === "running" ? onlyWorker(seen) : null),
      };
    });
  }
}

/** The plan that is being worked on: of the latest retry, else of the run. */
async function latestPlan(storage: Storage): Promise<Plan> {
  let plan = await readPlan(storage);
  for (;;) {
    const next = await readJson<Plan>(storage, planPathOf(plan.generation + 1));
    if (!next) return plan;
    plan = next;
  }
}

async function latestAttempts(
  storage: Storage,
  plan: Plan,
  committed: ReadonlySet<number>,
): Promise<Map<number, string>> {
  const latest = new Map<number, string>();
  const look = async (task: number) => {
    const prefix = taskAttemptsPrefix(task, plan);
    for await (const { path } of storage.list(prefix)) {
      // Ids sort by time, and so does the listing.
      latest.set(task, path.slice(prefix.length).split("/", 1)[0]!);
    }
  };
  let together: Promise<void>[] = [];
  for (let task = 0; task < plan.tasks.count; task++) {
    if (!committed.has(task)) together.push(look(task));
    if (together.length < listsAtOnce) continue;
    await Promise.all(together);
    together = [];
  }
  await Promise.all(together);
  return latest;
}

/** What is known of a run as a whole. */
interface Verdict {
  state: StateWord;
  reason: string | null;
  /** The error that ended it, where it was written down. */
  code: string | null;
}

async function verdictOf(storage: Storage, seen: Seen): Promise<Verdict> {
  const { plan, sealed, lives } = seen;
  const { coordinator, workers } = lives;
  const job = coordinator?.record.job ?? plan.job;
  const verdict = (state: StateWord, reason: string | null = null, code: string | null = null) => ({
    state,
    reason,
    code,
  });
  if (sealed) {
    if (withinBudget(job, plan, sealed.rows.failed)) return verdict("successful", "sealed");
    return verdict("failed", `sealed with ${sealed.rows.failed} failed rows`);
  }
  if (coordinator?.lives) {
    const { host, pid } = coordinator.record;
    return verdict("running", `by process ${pid} on ${host}`);
  }
  if (seen.atWork.length > 0) {
    const noun = seen.atWork.length === 1 ? "worker" : "workers";
    return verdict("running", `by ${seen.atWork.length} ${noun}`);
  }
  if (coordinator) {
    const error = coordinator.error;
    const wasCanceled = (await lastCancel(storage)) > coordinator.record.id;
    if (wasCanceled || error?.code === "RUN_CANCELED") return verdict("canceled");
    if (error) return verdict("failed", `${error.code}: ${error.message}`, error.code);
    if (!coordinator.hasEnded) return verdict("failed", "its process died");
    return verdict("canceled", "its process left before the end");
  }
  const hasDied = workers.some(({ hasEnded }) => !hasEnded);
  return hasDied ? verdict("failed", "a worker died") : verdict("pending");
}

/** Id of the last request to cancel; ids sort by time. */
async function lastCancel(storage: Storage): Promise<string> {
  let last = "";
  for await (const { path } of storage.list(cancelPrefix)) {
    last = (await readJson<{ id: string }>(storage, path))?.id ?? last;
  }
  return last;
}

function stateOfTask(task: number, { committed, attempts, atWork }: Seen, run: Verdict): StateWord {
  if (committed.has(task)) return "successful";
  const attempt = attempts.get(task);
  if (run.state === "canceled") return "canceled";
  if (run.state === "failed") return attempt ? "failed" : "pending";
  // An attempt that is older than every worker that lives was left by one that died.
  const [oldest] = atWork;
  return attempt && oldest !== undefined && oldest < attempt ? "running" : "pending";
}

/** The worker of a running task; which of several it is nobody has written down. */
function onlyWorker({ atWork }: Seen): string | null {
  return atWork.length === 1 ? atWork[0]! : null;
}

function workerStatus({ record, lives, hasEnded }: RunLives["workers"][number]): WorkerStatus {
  const { worker, host, pid, engine, device } = record;
  const state = lives ? "running" : hasEnded ? "successful" : "failed";
  return { id: worker, state, host, pid, engine, device };
}
