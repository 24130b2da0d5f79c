import type { Storage } from "../../data/storage/storage.ts";
import { eachAtOnce } from "../../foundation/each-at-once.ts";
import type { ErrorRecord } from "../../foundation/errors.ts";
import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";
import { shownPath } from "../../foundation/shown-path.ts";
import { type AttemptCounts, addCounts, type Commit, type ErrorCounts } from "../attempt/commit.ts";
import { committedTasks, openTaskSet, openTasks, readCommits } from "../attempt/commits.ts";
import { type EarlierCost, earlierCost } from "../bill/budget.ts";
import { type Budget, pricesOf, type Spending, tokensOf, usdOf } from "../bill/costs.ts";
import { journaledAnswers, journaledAttempts } from "../bill/journaled.ts";
import {
  hasJoiner,
  isAtWork,
  type LookOptions,
  lookAtLives,
  type RunLives,
} from "../coordinate/lives.ts";
import { cancelPrefix, taskAttemptsPrefix } from "../directory/layout.ts";
import { readJson } from "../directory/records.ts";
import { runWords } from "../directory/run-storage.ts";
import type { JobSpec } from "../job/schema.ts";
import { type Plan, readPlan } from "../plan/plan.ts";
import { answeredNothing, openRetry } from "../retry/abandon-retry.ts";
import type { Manifest } from "../seal/manifest.ts";
import { readManifest, readSeals } from "../seal/seals.ts";
import { readSubmissions, type Submission } from "../submissions.ts";
import { cutRetryOf } from "./cut-answers.ts";
import { EventTrace, type RunTrace, type TaskTrace, type WriterTrace } from "./event-trace.ts";
import type { BatchSum, RunProgress } from "./events.ts";
import { type JournaledCounts, JournaledRows } from "./journaled-rows.ts";
import { addBatches } from "./progress-state.ts";
import { areFailuresAllowed, failedRowsAllowed } from "./run-result.ts";
import type { StateWord } from "./state-words.ts";

/** The state of a run. */
export interface RunStatus {
  name: string | null;
  runId: string;
  /** 1, or the number of the present retry. */
  generation: number;
  /** Sealed retries, and appended rows. */
  retries: number;
  /** An unsealed retry: counts of tasks and rows are its own. */
  openRetry: { where: string; rows: number } | null;
  state: StateWord;
  /** The reason in a few words; null if the state says enough. */
  reason: string | null;
  /** ISO 8601: the times of the plan and of the seal. */
  createdAt: string;
  sealedAt: string | null;
  /** From the plan to the seal, or until now. */
  ageSeconds: number;
  /** Its place. */
  location: string;
  tasks: Record<StateWord | "total", number>;
  /** Of committed tasks; `journaled` are answered rows of the others, `filtered` of all tasks. */
  rows: { total: number; answered: number; filtered: number; failed: number; journaled: number };
  /** Requests of committed tasks; `journaled` are those of answered rows of the others. */
  requests: { planned: number; answered: number; journaled: number };
  /** Answered rows with an answer that reached its token limit; null = unknown. */
  cut: number | null;
  /** The command that sends cut rows again with more tokens; null if none helps. */
  cutRetry: string | null;
  /** Dead letters by code. */
  errors: ErrorCounts;
  usage: AttemptCounts["usage"];
  /** Tokens of answers in tasks without a commit, and their failed rows so far. */
  openUsage: Usage;
  openFailed: number;
  /** The last reports of its processes, every 5 s; null unless it runs. */
  live: LiveFigures | null;
  /** Money spent, by the job's prices; null without them. */
  usd: number | null;
  /** The model. */
  model: { engine: string; name: string | null };
  /** Stages are functions of a program: only that program can continue the run. */
  needsProgram: boolean;
  /** The input. */
  input: { paths: string[]; files: number; bytes: number };
  /** Rows a second: of the last half minute, or of all calls of a sealed run; null = unknown. */
  rowsPerSecond: number | null;
  /** Until all rows are done, at that rate; null unless it runs. */
  etaSeconds: number | null;
  /** Rows with a repeated id, once it is sealed; null if the job names no id field. */
  duplicateIds: number | null;
  /** The spent part of the job's budget so far, including tasks without a commit. */
  budget: { spent: Spending; budget: Budget } | null;
  /** Tasks without a commit, as an index set: empty once all are committed. */
  openTasks: string;
  /** What schedulers were given for it, in order. */
  submissions: Omit<Submission, "sent">[];
}

/** Sums over the processes that lead the work now. */
export interface LiveFigures {
  /** Rows in flight. */
  inFlight: number;
  /** Of the last half minute. */
  promptTokensPerSecond: number;
  completionTokensPerSecond: number;
  /** The batches at a provider, with `model.via: batch`. */
  batches?: readonly BatchSum[];
}

/** The state of one task. */
export interface TaskStatus {
  task: number;
  /** The attempt that counts: the committed one, else the latest. */
  id: string | null;
  state: StateWord;
  /** `0` once it is committed; else the code of what stopped it, if known. */
  code: string | null;
  rows: number | null;
  failed: number | null;
  worker: string | null;
  /** The first failure among its rows, or what stopped it. */
  error: { code: string; message: string } | null;
}

/** The state of one worker. */
export interface WorkerStatus {
  id: string;
  state: StateWord;
  host: string;
  pid: number;
  engine: string;
  device: string;
  /** The place that a scheduler gave it, such as `slurm 123_4 on n1`. */
  scheduler?: string;
}

export interface StatusReport {
  run: RunStatus;
  tasks: TaskStatus[];
  workers: WorkerStatus[];
}

/** Everything read of a run at one moment. */
interface Seen {
  plan: Plan;
  /** The newest seal. */
  manifest: Manifest | undefined;
  /** The same, if it is the seal of `plan`. */
  sealed: Manifest | undefined;
  lives: RunLives;
  committed: ReadonlySet<number>;
  /** Every task is done, and a worker has not left that seals the run then. */
  isSealing: boolean;
  /** Latest attempt at each task without a commit. */
  attempts: ReadonlyMap<number, string>;
  /** Their events, from coordinator and joining workers. */
  traces: ReadonlyMap<number, TaskTrace>;
  /** Why the last process stopped before a seal. */
  stopped: ErrorRecord | undefined;
  /** The last reports of the processes that lead the work now. */
  told: readonly RunProgress[];
  /** Answers of tasks without a commit. */
  journaled: JournaledCounts;
  /** Ids of the living workers, the oldest first. */
  atWork: readonly string[];
  /** If the job has a budget: its spent part outside commits, and the time of all calls. */
  uncommitted: EarlierCost | undefined;
  submissions: RunStatus["submissions"];
}

const listsAtOnce = 32;

/** Reads the state of a run; another call reads only what is new. */
export class StatusReader {
  readonly #storage: Storage;
  readonly #options: LookOptions;
  readonly #trace: EventTrace;
  readonly #journaled: JournaledRows;
  /** Commits never change, so each is read once. */
  readonly #commits = new Map<number, Commit>();
  #counts: AttemptCounts | undefined;
  #generation = 0;

  constructor(storage: Storage, options: LookOptions) {
    this.#storage = storage;
    this.#options = options;
    this.#trace = new EventTrace(storage);
    this.#journaled = new JournaledRows(storage);
  }

  /** @throws SluiceError `NOT_A_RUN`, `RUN_DAMAGED`. */
  async read(options: { tasks?: boolean } = {}): Promise<StatusReport> {
    let seen = await this.#look();
    // Its last worker may have sealed it, and left, between two of these looks.
    if (isUnsealed(seen) && !seen.isSealing) seen = await this.#look();
    const { plan, sealed, committed } = seen;
    if (this.#generation !== plan.generation) this.#forget(plan.generation);
    // A seal already holds the sums.
    if (!sealed) await this.#readCommits(plan, committed);
    const failedRows = sealed?.rows.failed ?? this.#counts?.rows.failed ?? 0;
    const verdict = await verdictOf(this.#storage, seen, failedRows);
    const tasks = options.tasks ? await this.#tasksOf(seen, verdict) : [];
    return {
      run: this.#runOf(seen, verdict),
      tasks,
      workers: seen.lives.workers.map(workerStatus),
    };
  }

  async #look(): Promise<Seen> {
    const lives = await lookAtLives(this.#storage, this.#options);
    const plan = await latestPlan(this.#storage, lives);
    // Read after the processes: a run that ends in between then counts as sealed, not as dead.
    const manifest = await readManifest(this.#storage);
    const sealed = manifest?.generation === plan.generation ? manifest : undefined;
    const committed = sealed
      ? new Set(sealed.tasks.keys())
      : await committedTasks(this.#storage, plan);
    const attempts = sealed ? new Map() : await latestAttempts(this.#storage, plan, committed);
    const number = lives.coordinator?.record.number ?? 0;
    const trace = sealed ? undefined : await this.#trace.read(plan, number);
    const found = { plan, manifest, sealed, lives, committed };
    return {
      ...found,
      isSealing: isUnsealed(found) && (await hasJoiner(this.#storage, plan, this.#options)),
      ...toldBy(trace, lives),
      attempts,
      journaled: await this.#journaled.count(plan, attempts.keys()),
      atWork: lives.workers
        .filter((worker) => worker.lives)
        .map(({ record }) => record.worker)
        .sort(),
      uncommitted:
        jobOf(plan, lives).budget && (await uncommittedCost(this.#storage, plan, attempts)),
      submissions: (await readSubmissions(this.#storage)).map(({ sent: _, ...rest }) => rest),
    };
  }

  #forget(generation: number): void {
    this.#generation = generation;
    this.#commits.clear();
    this.#counts = undefined;
  }

  async #readCommits(plan: Plan, committed: ReadonlySet<number>): Promise<void> {
    const fresh = [...committed].filter((task) => !this.#commits.has(task));
    for await (const commit of readCommits(this.#storage, plan, fresh)) {
      this.#commits.set(commit.task, commit);
      this.#counts = this.#counts ? addCounts(this.#counts, commit) : commit;
    }
  }

  #runOf(seen: Seen, verdict: Verdict): RunStatus {
    const { plan, manifest, sealed, committed, lives } = seen;
    const { answered: journaled, failed: openFailed, usage: openUsage } = seen.journaled;
    const counts = sealed ?? this.#counts;
    const { answered = 0, failed = 0 } = counts?.rows ?? {};
    const filtered = (counts?.rows.filtered ?? 0) + seen.journaled.filtered;
    const tasks = { failed: 0, canceled: 0, successful: 0, running: 0, pending: 0, total: 0 };
    tasks.total = sealed?.tasks.length ?? plan.tasks.count;
    for (let task = 0; task < tasks.total; task++) tasks[stateOfTask(task, seen, verdict)]++;
    const now = this.#options.clock.now();
    const endMs = sealed ? Date.parse(sealed.sealedAt) : now;
    const usage = counts?.usage ?? noUsage;
    const total = sealed?.rows.total ?? plan.rows;
    const done = answered + filtered + failed + journaled + openFailed;
    const isRunning = verdict.state === "running";
    const run = runWords(this.#storage);
    const rowsPerSecond = isRunning ? summed(seen.told, "rowsPerSecond") : averageOf(sealed);
    return {
      name: plan.job.name ?? null,
      runId: plan.runId,
      generation: plan.generation,
      retries: manifest?.retries?.length ?? 0,
      openRetry:
        plan.generation > 1 && !sealed ? { where: plan.where ?? "failed", rows: plan.rows } : null,
      state: verdict.state,
      reason: verdict.reason,
      createdAt: plan.createdAt,
      sealedAt: sealed?.sealedAt ?? null,
      ageSeconds: Math.max(0, (endMs - Date.parse(plan.createdAt)) / 1000),
      location: this.#storage.location,
      tasks,
      rows: { total, answered, filtered, failed, journaled },
      requests: {
        planned: counts?.requests.planned ?? 0,
        answered: counts?.requests.answered ?? 0,
        journaled: seen.journaled.responses,
      },
      cut: counts && counts.cut === undefined ? null : (counts?.cut ?? 0) + seen.journaled.cut,
      cutRetry: sealed ? (cutRetryOf(jobOf(plan, lives), run) ?? null) : null,
      errors: counts?.errors ?? {},
      usage,
      openUsage,
      openFailed,
      live: isRunning ? liveFigures(seen.told) : null,
      usd: sealed?.bill?.usd ?? usdOf(addUsage(usage, openUsage), pricesOf(jobOf(plan, lives))),
      model: modelOf(jobOf(plan, lives)),
      needsProgram: isOfProgram(plan.job),
      input: { paths: pathsOf(plan.job), files: plan.input.files, bytes: plan.input.bytes },
      rowsPerSecond,
      etaSeconds: isRunning && rowsPerSecond ? (total - done) / rowsPerSecond : null,
      duplicateIds: manifest?.duplicateIds?.count ?? null,
      budget: spentOfBudget(seen, usage),
      openTasks: sealed ? "" : openTaskSet(plan, committed),
      submissions: seen.submissions,
    };
  }

  async #tasksOf(seen: Seen, verdict: Verdict): Promise<TaskStatus[]> {
    if (seen.sealed) return await sealedTasks(this.#storage, seen.sealed);
    return Array.from({ length: seen.plan.tasks.count }, (_, task) => {
      const commit = this.#commits.get(task);
      const state = stateOfTask(task, seen, verdict);
      return {
        task,
        id: commit?.attempt ?? seen.attempts.get(task) ?? null,
        state,
        code: commit ? "0" : (seen.traces.get(task)?.error?.code ?? null),
        rows: commit?.rows.total ?? null,
        failed: commit?.rows.failed ?? null,
        worker: commit?.worker ?? seen.traces.get(task)?.worker ?? null,
        error: commit ? failureOf(commit) : (seen.traces.get(task)?.error ?? null),
      };
    });
  }
}

/** The writers' reports; of two about one task, the later one counts. */
function toldBy(
  trace: RunTrace | undefined,
  { coordinator, workers }: RunLives,
): Pick<Seen, "traces" | "stopped" | "told"> {
  if (!trace) return { traces: new Map(), stopped: undefined, told: [] };
  const living = new Set(workers.flatMap(({ lives, record }) => (lives ? record.worker : [])));
  const lives = (writer: WriterTrace) => [...writer.workers].some((worker) => living.has(worker));
  const leaders = trace.joined.filter(lives);
  if (coordinator?.lives && trace.coordinator) leaders.push(trace.coordinator);
  const writers = [...(trace.coordinator ? [trace.coordinator] : []), ...trace.joined].sort(
    (one, other) => (one.time < other.time ? -1 : 1),
  );
  return {
    traces: new Map(writers.flatMap(({ tasks }) => [...tasks])),
    stopped: writers.findLast(({ stopped }) => stopped)?.stopped,
    told: leaders.flatMap(({ progress }) => progress ?? []),
  };
}

type Figure = "inFlight" | "rowsPerSecond" | "promptTokensPerSecond" | "completionTokensPerSecond";

/** Null if there was no report yet. */
function summed(told: readonly RunProgress[], figure: Figure): number | null {
  return told.length === 0 ? null : told.reduce((sum, progress) => sum + progress[figure], 0);
}

function liveFigures(told: readonly RunProgress[]): LiveFigures | null {
  if (told.length === 0) return null;
  const batches = addBatches(told.flatMap((progress) => progress.batches ?? []));
  return {
    inFlight: summed(told, "inFlight") ?? 0,
    promptTokensPerSecond: summed(told, "promptTokensPerSecond") ?? 0,
    completionTokensPerSecond: summed(told, "completionTokensPerSecond") ?? 0,
    ...(batches.length > 0 && { batches }),
  };
}

/** Over all calls of a sealed run. */
function averageOf(sealed: Manifest | undefined): number | null {
  const { wallSeconds = 0 } = sealed?.bill ?? {};
  return sealed && wallSeconds > 0 ? sealed.rows.total / wallSeconds : null;
}

const isOfProgram = ({ model }: JobSpec) =>
  model.engine === "pipeline" && model.stages.some(({ closure }) => closure !== undefined);

function modelOf({ model }: JobSpec): RunStatus["model"] {
  const named = model as { name?: unknown; module?: unknown };
  const name = [named.name, named.module].find((value) => typeof value === "string");
  return { engine: model.engine, name: name === undefined ? null : String(name) };
}

const pathsOf = ({ input, dataset }: JobSpec) =>
  (dataset?.map(({ path }) => path) ?? input.map(({ path }) => path)).map(shownPath);

async function sealedTasks(storage: Storage, { tasks }: Manifest): Promise<TaskStatus[]> {
  const found: TaskStatus[] = [];
  for (const { task, attempt: id, rows, failed, commit, retried } of tasks) {
    const last = retried?.at(-1)?.commit ?? commit;
    const record = await readJson<Commit>(storage, last.path);
    const worker = record?.worker ?? null;
    const error = failed > 0 && record ? failureOf(record) : null;
    found.push({ task, id, state: "successful", code: "0", rows, failed, worker, error });
  }
  return found;
}

function failureOf({ errors }: Commit): TaskStatus["error"] {
  const [first] = Object.entries(errors);
  return first ? { code: first[0], message: first[1].message } : null;
}

/** The job as it runs now, or ran last. */
function jobOf(plan: Plan, { coordinator }: RunLives): JobSpec {
  return coordinator?.record.job ?? plan.job;
}

/** The cost of earlier generations, and of tasks without a commit. */
async function uncommittedCost(
  storage: Storage,
  plan: Plan,
  attempts: ReadonlyMap<number, string>,
): Promise<EarlierCost> {
  const { usage, seconds } = await earlierCost(storage, plan);
  const run = { storage, plan };
  let sum = usage;
  for (const task of attempts.keys()) {
    const ids = (await journaledAttempts(run, task)).get(task) ?? [];
    sum = addUsage(sum, await journaledAnswers(run, task, ids));
  }
  return { usage: sum, seconds };
}

function spentOfBudget(
  { plan, lives, sealed, uncommitted }: Seen,
  usage: Usage,
): RunStatus["budget"] {
  const job = jobOf(plan, lives);
  const { budget } = job;
  if (!budget || !uncommitted || Object.keys(budget).length === 0) return null;
  // A seal holds the sums of all generations.
  const paid = sealed?.bill ?? addUsage(uncommitted.usage, usage);
  const minutes = uncommitted.seconds / 60;
  return { budget, spent: { tokens: tokensOf(paid), usd: usdOf(paid, pricesOf(job)), minutes } };
}

/**
 * The plan in work: that of the latest retry, else of the run. A retry without answers and without
 * a working process is ignored.
 */
async function latestPlan(storage: Storage, lives: RunLives): Promise<Plan> {
  const first = await readPlan(storage);
  const { sealed } = await readSeals(storage, first);
  if (!sealed) return first;
  const retry = await openRetry(storage, first);
  if (retry && (isAtWork(lives) || !(await answeredNothing(storage, retry)))) return retry;
  return await readPlan(storage, sealed.generation);
}

async function latestAttempts(
  storage: Storage,
  plan: Plan,
  committed: ReadonlySet<number>,
): Promise<Map<number, string>> {
  const latest = new Map<number, string>();
  const open = openTasks(plan, committed);
  await eachAtOnce(open, listsAtOnce, async (task) => {
    const prefix = taskAttemptsPrefix(task, plan);
    for await (const { path } of storage.list(prefix)) {
      // Ids sort by time, and so does the listing.
      latest.set(task, path.slice(prefix.length).split("/", 1)[0]!);
    }
  });
  return latest;
}

/** The state of a run as a whole. */
interface Verdict {
  state: StateWord;
  reason: string | null;
}

async function verdictOf(storage: Storage, seen: Seen, failedRows: number): Promise<Verdict> {
  const { plan, sealed, lives, atWork, isSealing } = seen;
  const { coordinator } = lives;
  if (sealed) {
    const isWithin = areFailuresAllowed(
      jobOf(plan, lives),
      { rows: sealed.rows.total },
      failedRows,
    );
    const state = isWithin ? "successful" : "failed";
    return { state, reason: failedRows === 0 ? "sealed" : `sealed, failed rows: ${failedRows}` };
  }
  if (coordinator?.lives) {
    const { host, pid } = coordinator.record;
    return { state: "running", reason: `by process ${pid} on ${host}` };
  }
  if (atWork.length > 0) {
    const noun = atWork.length === 1 ? "worker" : "workers";
    return { state: "running", reason: `by ${atWork.length} ${noun}` };
  }
  if (isSealing) return { state: "running", reason: "every task is done, and its seal is due" };
  const left = await verdictOfLeft(storage, seen, failedRows);
  if (!isUnsealed(seen)) return left;
  const reason = [left.reason, "every task is done, and only the seal is missing"];
  return { ...left, reason: reason.filter(Boolean).join("; ") };
}

/** Tasks, of which every one is committed, without a seal or anybody at work. */
function isUnsealed({
  sealed,
  plan,
  committed,
  lives,
}: Pick<Seen, "sealed" | "plan" | "committed" | "lives">): boolean {
  const isDone = committed.size > 0 && committed.size === plan.tasks.count;
  return !sealed && isDone && !isAtWork(lives);
}

/** Why nobody works on a run without a seal. */
async function verdictOfLeft(storage: Storage, seen: Seen, failedRows: number): Promise<Verdict> {
  const { coordinator, workers } = seen.lives;
  if (coordinator) {
    const wasCanceled = (await lastCancel(storage)) > coordinator.record.id;
    if (wasCanceled) return { state: "canceled", reason: "by sluice cancel" };
    return verdictOfStopped(seen, coordinator, failedRows);
  }
  const newest =
    workers
      .map(({ record }) => record.worker)
      .sort()
      .at(-1) ?? "";
  if ((await lastCancel(storage)) > newest)
    return { state: "canceled", reason: "by sluice cancel" };
  const stop =
    seen.stopped && (stateOfStop(seen.stopped) ?? { state: "canceled", reason: "stopped" });
  if (stop) return stop;
  const hasDied = workers.some(({ hasEnded }) => !hasEnded);
  if (hasDied) return { state: "failed", reason: "a worker died" };
  return { state: "pending", reason: null };
}

/** Why a coordinator left before the end without being asked to. */
function verdictOfStopped(
  { plan, manifest, traces, committed, stopped, lives, submissions }: Seen,
  { record, hasEnded }: NonNullable<RunLives["coordinator"]>,
  committedFailures: number,
): Verdict {
  const stop = stopped && stateOfStop(stopped);
  if (stop) return stop;
  const ends = [...traces].filter(([task]) => !committed.has(task)).map(([, trace]) => trace);
  const error = ends.findLast((trace) => trace.error)?.error;
  if (error) return { state: "failed", reason: `${error.code}: ${error.message}` };
  const waiting = submissions.findLast(({ coordinator }) => coordinator === record.id);
  // Ids sort by time: none of its workers has begun.
  if (waiting && !lives.workers.some(({ record: { worker } }) => worker > record.id)) {
    return { state: "pending", reason: `submitted as ${waiting.scheduler} ${waiting.id}` };
  }
  if (!hasEnded) return { state: "failed", reason: "its process died" };
  const failed = ends.reduce((sum, { failedRows }) => sum + failedRows, committedFailures);
  // A share is of all rows of the run; a retry processes some of them.
  const allowed = failedRowsAllowed(record.job, { rows: manifest?.rows.total ?? plan.rows });
  if (allowed === undefined || failed <= allowed) return { state: "canceled", reason: "stopped" };
  const reason = `TOO_MANY_FAILED_ROWS: ${failed} failed, ${allowed} allowed`;
  return { state: "failed", reason };
}

/** Undefined for a requested stop. */
function stateOfStop({ code, message }: ErrorRecord): Verdict | undefined {
  if (code === "BUDGET_SPENT") return { state: "canceled", reason: message };
  return code === "RUN_CANCELED" ? undefined : { state: "failed", reason: `${code}: ${message}` };
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
  // An attempt older than every living worker belonged to a dead one.
  const [oldest] = atWork;
  return attempt && oldest !== undefined && oldest < attempt ? "running" : "pending";
}

function workerStatus({ record, lives, hasEnded }: RunLives["workers"][number]): WorkerStatus {
  const { worker, host, pid, engine, device, scheduler } = record;
  const state = lives ? "running" : hasEnded ? "successful" : "failed";
  return { id: worker, state, host, pid, engine, device, ...(scheduler && { scheduler }) };
}
