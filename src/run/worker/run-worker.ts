import { join } from "node:path";
import type { Storage } from "../../data/storage/storage.ts";
import { assignedDevices } from "../../engines/devices.ts";
import type { Engine, EngineContext } from "../../engines/engine.ts";
import { describeEngine, openEngine } from "../../engines/registry.ts";
import { redactor, withoutSecrets } from "../../engines/secrets.ts";
import { type Channel, channelPair } from "../../foundation/channel.ts";
import { asSluiceError, type SluiceError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import { limits } from "../../foundation/limits.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import { leadingCoordinator } from "../coordinate/coordinator.ts";
import type { ProcessIdentity } from "../coordinate/processes.ts";
import { schedulerPlace } from "../coordinate/scheduler-place.ts";
import type { RunDependencies } from "../dependencies.ts";
import { workerPath } from "../directory/layout.ts";
import type { RunLocation } from "../directory/locate.ts";
import { recordBytes } from "../directory/records.ts";
import { runStorage } from "../directory/run-storage.ts";
import type { WorkerHandle } from "../dispatch/dispatch.ts";
import { RequestTraces } from "../execute/request-traces.ts";
import { differingAnswers } from "../job/kinds.ts";
import type { JobSpec } from "../job/schema.ts";
import { asksAboutFiles } from "../plan/job-files.ts";
import { promptSetOf } from "../plan/job-prompts.ts";
import { effectiveJob, readPlan } from "../plan/plan.ts";
import { PreparedPrompts } from "../prepared/prepared-prompts.ts";
import { AnswerCache } from "../reuse/answer-cache.ts";
import { withReuse } from "../reuse/reusing-engine.ts";
import { type RunContext, runContext } from "../run-context.ts";
import { type LeaveRequest, leaveRequestOf } from "./leave-request.ts";
import type { FromWorker, ToWorker } from "./protocol.ts";
import { Worker } from "./worker.ts";

export interface RunWorkerOptions {
  location: RunLocation;
  generation: number;
  dependencies: RunDependencies;
  engineContext: EngineContext;
  channel: Channel<FromWorker, ToWorker>;
  /** Default: by the registry of engines. */
  openEngine?: typeof openEngine;
  /**
   * Fetches what the job's engine lacks on this machine, and says what it does. Default: whoever
   * started the worker has done it.
   */
  prepare?(job: JobSpec, tell: (doing: string) => void): Promise<void>;
}

/** The report of a living worker. */
export interface WorkerRecord extends ProcessIdentity {
  worker: string;
  status: "running" | "successful";
  engine: string;
  device: string;
  /** The place that a scheduler gave it, such as `slurm 123_4 on n1`. */
  scheduler?: string;
  beat: number;
}

/**
 * A worker's whole life: opens the run and the engine, obeys the messages of the channel, and
 * leaves when it is told to or when the channel closes. An engine that cannot start is reported as
 * `worker-failed`.
 *
 * @returns that error, or `PROTOCOL` if a line of the channel was not a message; undefined if it
 *   left in order.
 */
export async function runWorker(options: RunWorkerOptions): Promise<SluiceError | undefined> {
  const { channel, dependencies, engineContext } = options;
  const redact = redactor(engineContext.environment);
  try {
    const context = await openContext(options);
    const { job } = context.plan;
    await prepareMachine(options, job);
    const jobPrompts = promptSetOf(job, context.plan.seed);
    const traces = context.trace && new RequestTraces(context.trace, context.clock);
    const opened = await engineOf(options, context, traces);
    const prompts = preparedPrompts(context, dependencies, jobPrompts, opened);
    const promptSet = prompts?.promptSet ?? jobPrompts;
    const engine = await reusingEngine(opened, promptSet, context, dependencies);
    const { pid } = dependencies.processes.self();
    const worker = new Worker({
      ...{ context, engine, redact, promptSet, prompts, traces, channel, pid },
    });
    const gpu = engine.choices?.gpu;
    const device = gpu ? (assignedDevices(engineContext.environment) ?? String(gpu)) : "cpu";
    const scheduler = schedulerPlace(engineContext.environment);
    const facts = { engine: engine.name, device, ...(scheduler && { scheduler }) };
    const onLeave =
      job.model.engine === "program"
        ? ({ graceMs }: LeaveRequest) => channel.send({ type: "worker-leave", graceMs })
        : undefined;
    const endHeartbeat = keepHeartbeat(context, dependencies, facts, onLeave);
    worker.start();
    await worker.stopped;
    await endHeartbeat();
    await engine.close();
    if (worker.fault) context.logger.log("error", worker.fault.message);
    return worker.fault;
  } catch (thrown) {
    const error = withoutSecrets(asSluiceError(thrown), redact);
    channel.send({ type: "worker-failed", error: error.toJSON() });
    channel.close();
    return error;
  }
}

/**
 * A worker in this process, at the end of a channel. It talks to its coordinator like any other,
 * but cannot die alone: killed, it is only left to itself.
 */
export function workerInside(serving: Omit<RunWorkerOptions, "channel">): WorkerHandle {
  const [near, far] = channelPair<ToWorker, FromWorker>();
  const killed = Promise.withResolvers<string>();
  const kill = () => {
    near.close();
    killed.resolve("it was left to itself");
  };
  const left = runWorker({ ...serving, channel: far }).then(() => "it left");
  return { channel: near, kill, ended: Promise.race([left, killed.promise]) };
}

/** Says that the worker lives meanwhile: its coordinator waits only so long for a silent one. */
async function prepareMachine(
  { prepare, channel, dependencies: { clock } }: RunWorkerOptions,
  job: JobSpec,
): Promise<void> {
  if (!prepare) return;
  let doing: string | undefined;
  let cancel = () => {};
  const beat = () => {
    channel.send({ type: "worker-beat", ...(doing !== undefined && { doing }) });
    cancel = clock.schedule(limits.progressIntervalMs, beat);
  };
  beat();
  try {
    await prepare(job, (text) => {
      doing = text;
    });
  } finally {
    cancel();
  }
}

async function engineOf(
  { openEngine: open = openEngine, engineContext, dependencies }: RunWorkerOptions,
  context: RunContext,
  traces: RequestTraces | undefined,
): Promise<Engine> {
  const { job, seed } = context.plan;
  const { inputs, processes } = dependencies;
  if (job.model.engine === "program") {
    const { openProgramPlaces } = await import("../programs/program-places.ts");
    const folder = join(engineContext.homeDirectory, "mounts");
    const { mounts } = job.model;
    const programPlaces = openProgramPlaces({ context, mounts, inputs, processes, folder });
    return open(job.model, { ...engineContext, programPlaces });
  }
  if (job.model.engine !== "pipeline") {
    const engine = await open(job.model, await withRecords(engineContext, context));
    if (!asksAboutFiles(job)) return engine;
    const { fetchingFiles } = await import("../execute/fetching-engine.ts");
    return fetchingFiles(engine, inputs, job);
  }
  const { rowModelOpener } = await import("../execute/row-model.ts");
  const openRowModel = rowModelOpener(job, seed, open, inputs, traces);
  return open(job.model, { ...engineContext, openRowModel });
}

/** With the run's batches at a provider, for an engine that sends requests in such. */
async function withRecords(engineContext: EngineContext, context: RunContext) {
  const { model } = context.plan.job;
  if (!describeEngine(model).sendsBatches?.(model)) return engineContext;
  const { openBatchRecords } = await import("../provider-batches/batch-records.ts");
  return { ...engineContext, batchRecords: openBatchRecords(context) };
}

async function reusingEngine(
  engine: Engine,
  promptSet: PromptSet,
  { plan: { job }, logger, random }: RunContext,
  { openStorage }: RunDependencies,
): Promise<Engine> {
  if (job.model.engine === "pipeline") {
    const { areStagesRepeatable } = await import("../execute/row-model.ts");
    // Rows of a sampling stage get separate answers.
    if (!areStagesRepeatable(job)) return engine;
  }
  const { cache } = job;
  return withReuse(engine, promptSet, job, {
    ...{ logger, random },
    ...(cache && { cache: new AnswerCache(openStorage(cache.path), cache.maxBytes, logger) }),
  });
}

function preparedPrompts(
  { plan: { job }, logger }: RunContext,
  { openStorage }: RunDependencies,
  promptSet: PromptSet,
  engine: Engine,
): PreparedPrompts | undefined {
  const { keeper } = promptSet;
  if (job.preparedDir === undefined || keeper === undefined) return undefined;
  const storage = openStorage(job.preparedDir);
  const tokenize = engine.tokenize?.bind(engine);
  return new PreparedPrompts({ storage, job, promptSet, keeper, tokenize, logger });
}

async function openContext({
  location,
  generation,
  dependencies,
}: RunWorkerOptions): Promise<RunContext> {
  const storage = runStorage(dependencies.openStorage(location.directory));
  const { plan, trace } = await presentRun(storage, generation);
  const worker = sortableId(dependencies.clock, dependencies.random);
  return { ...runContext(location, plan, dependencies, worker, storage), trace };
}

/**
 * The plan with the settings of the call that led last: time-outs, endpoints, limits; and the span
 * of that call.
 */
export async function presentRun(
  storage: Storage,
  generation: number,
): Promise<Pick<RunContext, "plan" | "trace">> {
  const [plan, leader] = await Promise.all([
    readPlan(storage, generation),
    leadingCoordinator(storage),
  ]);
  const planned = effectiveJob(plan, plan.job);
  // Another generation's coordinator sends other requests. In this order, because earlier versions
  // wrote the drawn seed into a coordinator's job.
  const isOurs = leader !== undefined && differingAnswers(leader.job, planned).length === 0;
  const job = isOurs ? effectiveJob(plan, leader.job) : planned;
  return { plan: { ...plan, job }, trace: isOurs ? leader.trace : undefined };
}

/** @param onLeave called if the worker is asked to leave, and again when it gets another time. */
function keepHeartbeat(
  { storage, clock, worker, logger }: RunContext,
  { processes }: RunDependencies,
  facts: Pick<WorkerRecord, "engine" | "device" | "scheduler">,
  onLeave?: (request: LeaveRequest) => void,
): () => Promise<void> {
  let beat = 0;
  let toldMs: number | undefined;
  let cancel: () => void = () => {};
  let writing: Promise<void> = Promise.resolve();
  let hasEnded = false;
  const write = async () => {
    const status = hasEnded ? "successful" : "running";
    const record: WorkerRecord = { worker, status, beat: beat++, ...facts, ...processes.self() };
    await storage.replace(workerPath(worker), recordBytes(record)).catch((error: unknown) => {
      // A heartbeat is only information; the next one may succeed.
      logger.log("debug", asSluiceError(error).message);
    });
  };
  const lookForLeave = async () => {
    const request = await leaveRequestOf(storage, worker).catch(() => undefined);
    if (request === undefined || request.graceMs === toldMs || hasEnded) return;
    toldMs = request.graceMs;
    onLeave?.(request);
  };
  const tick = () => {
    writing = write();
    if (onLeave) void lookForLeave();
    cancel = clock.schedule(limits.heartbeatIntervalMs, tick);
  };
  tick();
  return async () => {
    cancel();
    hasEnded = true;
    await writing;
    await write();
  };
}
