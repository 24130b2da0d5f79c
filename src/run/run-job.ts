import { describeEngine } from "../engines/registry.ts";
import { asSluiceError } from "../foundation/errors.ts";
import { committedTasks } from "./attempt/commits.ts";
import { ProposedCommits } from "./attempt/proposed-commits.ts";
import { openBudget } from "./bill/budget.ts";
import { pricesOf } from "./bill/costs.ts";
import { Coordinator } from "./coordinate/coordinator.ts";
import type { RunDependencies } from "./dependencies.ts";
import { reportPath } from "./directory/layout.ts";
import { removeStaleLeftovers } from "./directory/leftovers.ts";
import { runWords } from "./directory/run-storage.ts";
import {
  type Backend,
  type BackendOf,
  type BackendRun,
  isCancellation,
  type Preparation,
} from "./dispatch/backend.ts";
import type { DispatchEnd } from "./dispatch/dispatch.ts";
import { type Pending, pendingTasks } from "./dispatch/pending-tasks.ts";
import { generationNotices } from "./job/generation.ts";
import type { JobSpec } from "./job/schema.ts";
import { effectNotices, firstRowsNotices, hostedNotice, inputNotices } from "./plan/notices.ts";
import { type OpenedRun, type OpenRunOptions, openOrPlan } from "./plan/open-run.ts";
import { deleteProviderFiles } from "./provider-batches/provider-side.ts";
import { writeAxolotlReport } from "./report/axolotl-report.ts";
import { reuseNotices } from "./reuse/reusing-engine.ts";
import type { RunContext } from "./run-context.ts";
import type { Manifest } from "./seal/manifest.ts";
import { completeSeal } from "./seal/publish-seal.ts";
import { sealRun } from "./seal/seal.ts";
import { cutNotice } from "./status/cut-answers.ts";
import { EventStream } from "./status/event-stream.ts";
import type { RunEvent } from "./status/events.ts";
import {
  failedBefore,
  failedRowsAllowed,
  placesOf,
  type RunResult,
  sealedResult,
  stoppedResult,
} from "./status/run-result.ts";
import { duplicatesNotice } from "./status/summary.ts";

/**
 * How a run is carried out, whether it starts, continues or is retried. `signal` is aborted to stop
 * cleanly; its reason, if it is a SluiceError, says why.
 */
export interface CallOptions extends Preparation {
  backendOf: BackendOf;
  /** Submits the work to the scheduler of the job's backend and ends; default false. */
  isDetached?: boolean;
  onEvent(event: RunEvent): void;
}

export interface RunJobOptions
  extends CallOptions,
    Pick<OpenRunOptions, "overwrite" | "fork" | "skipsInputCheck"> {
  /** Requests to cancel that this call need not obey; default: all earlier ones. */
  cancelsBefore?: number;
}

/** The same, with its run. */
interface OpenedResult extends RunResult {
  opened: OpenedRun;
}

/**
 * Carries out a job: plans it or finds its run, has the backend run the uncommitted tasks, and
 * seals. Another run of the same job continues where it stopped.
 *
 * @throws SluiceError for everything that prevents a start; what stops the run later is in the
 *   result.
 */
export async function runJob(
  job: JobSpec,
  dependencies: RunDependencies,
  options: RunJobOptions,
): Promise<OpenedResult> {
  const startedMs = dependencies.clock.monotonic();
  const { backendOf } = options;
  const backend = backendOf(job);
  const opened = await openOrPlan(job, dependencies, {
    ...options,
    workersFor: async (spec, rows) =>
      (await backend.workersFor(spec, rows, options.signal)).workers,
    beforePlan: (spec) => backend.check(spec, options),
  });
  const { context, location } = opened;
  const seconds = () => (dependencies.clock.monotonic() - startedMs) / 1000;
  const sealed = await completeSeal(context, context.plan, dependencies);
  if (sealed) {
    const facts = { ...placesOf(location, sealed.generation), runTimeSec: seconds() };
    const before = { resumedRows: sealed.rows.total, generatedTokens: 0 };
    const result = sealedResult(sealed, opened.job, { ...facts, ...before }, true);
    // The sealing process may have died before it wrote the report, or writes none.
    const hasReport = await context.storage.stat(reportPath);
    if (opened.job.report && !hasReport) await writeAxolotlReport(context, result.summary);
    return { ...result, opened };
  }
  const id = context.worker;
  const { storage, clock } = context;
  const { processes } = dependencies;
  const present = await withSharedLimits(opened.job, context.plan.rows, backend, options.signal);
  // Workers read this job from the coordinator's record, not from a command line.
  const coordinator = await Coordinator.lead({
    ...{ storage, clock, processes, id, trace: dependencies.trace },
    job: present.job,
    ownModel: opened.job.model,
    cancelsBefore: options.cancelsBefore,
  });
  const seal = (engine: Manifest["engine"]) =>
    sealRun(context, {
      engine,
      prices: pricesOf(opened.job),
      assertLeads: () => coordinator.assertLeads(),
    });
  try {
    const { engineContext } = dependencies;
    const totalRows = context.plan.rows;
    const run = { ...opened, ...present, backend, totalRows, seal, engineContext };
    return { ...(await runAndSeal(run, coordinator, options, seconds)), opened };
  } finally {
    await coordinator.end();
  }
}

/** A run with the settings of this call. */
export interface PresentRun extends OpenedRun {
  backend: Backend;
  workers: number;
  notices: string[];
  /** Rows of the whole run, for a share of failed rows; a retry sends only some. */
  totalRows: number;
  /** Called once every task is committed. */
  seal(engine: Manifest["engine"]): Promise<Manifest>;
  engineContext: RunDependencies["engineContext"];
}

/**
 * The job of each worker: workers share a limit on requests in flight, and models that compute side
 * by side share the processor.
 */
export async function withSharedLimits(
  job: JobSpec,
  rows: number,
  backend: Pick<Backend, "workersFor">,
  signal?: AbortSignal,
) {
  const chosen = await backend.workersFor(job, rows, signal);
  const { workers, cores, freeMemoryBytes } = chosen;
  const notices = [...generationNotices(job.generation), ...reuseNotices(job), ...chosen.notices];
  const { sharedAmong, notices: noticesOf } = describeEngine(job.model);
  const model = sharedAmong?.(job.model, workers, cores, freeMemoryBytes) ?? job.model;
  notices.push(...(noticesOf?.(model, cores) ?? []));
  return { job: { ...job, model }, workers, notices };
}

const leftBatches =
  "batches at the provider are still carried out: the same command takes their answers, sluice cancel cancels them";

/** Has the backend run the uncommitted tasks, and seals. */
export async function runAndSeal(
  run: PresentRun,
  coordinator: Coordinator,
  options: CallOptions,
  seconds: () => number,
): Promise<RunResult> {
  const { context, location, job } = run;
  const { plan, storage } = context;
  const { clock, logger } = context;
  const writer = coordinator.record.number;
  const sink = { storage, clock, logger, writer, onEvent: options.onEvent };
  const events = await EventStream.open(sink);
  const onEvent = events.add;
  try {
    if (coordinator.record.number > 1) await removeStaleLeftovers(context, plan);
    const committed = await committedTasks(storage, plan);
    const pending = await pendingTasks(context, committed);
    for (const message of run.notices) onEvent({ type: "notice", message });
    if (plan.rows === 0) onEvent({ type: "notice", message: "the input holds no row" });
    const places = placesOf(location, plan.generation);
    onEvent({
      type: "run-start",
      runId: plan.runId,
      output: places.output,
      tasks: plan.tasks.count,
      rows: plan.rows,
      resumedTasks: committed.size,
      resumedRows: pending.committedRows,
      generation: plan.generation,
    });
    const { end, engine } = await dispatch(run, pending, coordinator, { ...options, onEvent });
    const resumedRows = pending.committedRows + (end?.resumedRows ?? 0);
    const facts = { ...places, resumedRows, generatedTokens: end?.generatedTokens ?? 0 };
    if (end?.error) {
      const isStopped = end.error.code !== "RUN_DETACHED";
      const isLeft =
        isCancellation(end.error) && describeEngine(job.model).sendsBatches?.(job.model);
      if (isLeft) onEvent({ type: "notice", message: leftBatches });
      if (isStopped) onEvent({ type: "run-stop", error: end.error.toJSON() });
      return await stoppedResult(context, end, { ...facts, runTimeSec: seconds() });
    }
    if (run.engineContext) {
      const reason = await deleteProviderFiles(storage, plan, job, run.engineContext());
      const message = `files of batches stay at the provider: ${reason}`;
      if (reason !== undefined) onEvent({ type: "notice", message });
    }
    const manifest = await run.seal(engine);
    const isNew = plan.generation === 1 || plan.whole !== undefined;
    const repeats = isNew ? duplicatesNotice(manifest) : undefined;
    if (repeats !== undefined) onEvent({ type: "notice", message: repeats });
    const cut = cutNotice(manifest, plan.job, runWords(storage, places.output));
    if (cut !== undefined) onEvent({ type: "notice", message: cut });
    const { total, failed } = manifest.rows;
    onEvent({ type: "run-seal", manifest: places.manifestPath, rows: total, failed });
    const result = sealedResult(manifest, job, { ...facts, runTimeSec: seconds() }, false);
    if (job.report) await writeAxolotlReport(context, result.summary);
    return result;
  } catch (error) {
    // Readers would take this process for one that was stopped.
    onEvent({ type: "run-stop", error: asSluiceError(error).toJSON() });
    throw error;
  } finally {
    await events.close();
  }
}

async function dispatch(
  run: PresentRun,
  pending: Pending,
  coordinator: Coordinator,
  options: CallOptions & Pick<BackendRun, "onEvent">,
): Promise<{ end?: DispatchEnd; engine: Manifest["engine"] }> {
  const { context, job, backend, workers, totalRows: rows } = run;
  const { tasks, rowsOf, committed } = pending;
  const { onEvent, isDetached = false } = options;
  if (tasks.length === 0) return { engine: null };
  const isWeak = context.storage.createsOnce === false;
  const commits = isWeak ? new ProposedCommits(context, coordinator) : undefined;
  const budget = await openBudget({ context, job, committed }, onEvent);
  const signals = [options.signal, coordinator.signal, ...(budget ? [budget.signal] : [])];
  const signal = AbortSignal.any(signals);
  let engine: Manifest["engine"] = null;
  const hear: BackendRun["onEvent"] = (event, isStored) => {
    if (event.type === "worker-start") engine = { name: event.engine, choices: event.choices };
    // An engine may continue to adjust its settings, such as the limit of requests in flight.
    const found = event.type === "task-end" ? event.choices : undefined;
    if (engine && found) engine = { ...engine, choices: found };
    onEvent(event, isStored);
    budget?.hear(event);
    commits?.hear(event);
  };
  try {
    budget?.start();
    // If earlier calls spent the whole budget, no request will be sent.
    if (!budget?.signal.aborted) {
      // Once a run has answers, the notice was read.
      const told = committed.size === 0 ? effectNotices(job) : [];
      for (const message of told) onEvent({ type: "notice", message });
      const notice = await hostedNotice(context, signal);
      if (notice !== undefined) onEvent({ type: "notice", message: notice });
      await backend.prepare(job, options);
    }
    const ended = failedBefore(context, job, committed).then((before) =>
      backend.run({
        ...{ context, location: run.location.directory, job, tasks, rowsOf, workers, isDetached },
        ...{ maxFailedRows: failedRowsAllowed(job, { rows }), failedBefore: before },
        ...{ onEvent: hear, signal },
      }),
    );
    // In parallel with the work: it is for people, and the first request must not wait for it.
    const [end] = await Promise.all([ended, tellOfFirstRows(context, onEvent, signal)]);
    await commits?.settled();
    return { end, engine };
  } finally {
    budget?.close();
  }
}

async function tellOfFirstRows(
  context: RunContext,
  onEvent: CallOptions["onEvent"],
  signal: AbortSignal,
): Promise<void> {
  const notices = [...inputNotices(context.plan), ...(await firstRowsNotices(context, signal))];
  for (const message of notices) onEvent({ type: "notice", message });
}
