import { storeFlags } from "../../data/s3/store-options.ts";
import { schemeOf } from "../../data/storage/open.ts";
import { sleep, systemClock } from "../../foundation/clock.ts";
import { asSluiceError, errorFromRecord, SluiceError } from "../../foundation/errors.ts";
import { digestOf, sha256Hex } from "../../foundation/hashing.ts";
import { sortableId } from "../../foundation/ids.ts";
import { jsonObjectIn } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { systemRandom } from "../../foundation/random.ts";
import { quotedWord } from "../../foundation/shown-path.ts";
import { traceContextOf } from "../../foundation/telemetry.ts";
import { leadingCoordinator, requestCancel } from "../../run/coordinate/coordinator.ts";
import { planPath } from "../../run/directory/layout.ts";
import { locateRun } from "../../run/directory/locate.ts";
import { readJson } from "../../run/directory/records.ts";
import { runStorage, runWords } from "../../run/directory/run-storage.ts";
import { attachRun } from "../../run/follow/attach-run.ts";
import { RunFollower } from "../../run/follow/run-follower.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import { identifiedJob } from "../../run/plan/open-run.ts";
import { type Plan, readPlan } from "../../run/plan/plan.ts";
import { openRetry } from "../../run/retry/abandon-retry.ts";
import { runContext } from "../../run/run-context.ts";
import { readSeals } from "../../run/seal/seals.ts";
import type { RunSummary } from "../../run/status/events.ts";
import { placesOf, type RunResult, stoppedResult } from "../../run/status/run-result.ts";
import { recordSubmission, submissionsTo } from "../../run/submissions.ts";
import {
  type BackendContext,
  type DelegatedCall,
  type Environment,
  nodePackage,
  type OpenBackend,
} from "../context.ts";
import { wholeLog, writeLogs } from "../joining/logs.ts";
import { assertSeen } from "../joining/places.ts";
import { isActive, type ShareState, type SubmittedRun } from "../joining/scheduler.ts";
import { packJob } from "./job-package.ts";
import { type RayJob, RayJobsClient, type RaySubmission } from "./jobs-client.ts";

const lookIntervalMs = 500;
/** A job that waits longer for its start is worth a word. */
const maxQuietMs = 10_000;
const onlyBegun = "--unfinished";
const runCommand = ["run", "job.json", "--quiet"];
/** Time for a job to end once its run has. */
const maxEndMs = limits.maxLeaveMs;
const sharedHint =
  "use s3://bucket/out; if all nodes and this machine mount the folder at this path, set ray.shared: true";

/**
 * A Ray cluster as seen from outside, by the address of its dashboard: the coordinator runs there
 * as a Ray job, and the run directory shows here what it does.
 */
export function openRayOutside({ environment }: BackendContext, address: string): OpenBackend {
  const client = new RayJobsClient({
    ...{ address, environment, clock: systemClock, random: systemRandom },
  });
  const refuse = async () => {
    throw new SluiceError("UNSUPPORTED", "this from outside of a Ray cluster", {
      hint: "call it on a node of the cluster, with --set ray.address=auto",
    });
  };
  return {
    name: "ray",
    startAhead() {},
    close() {},
    // The run of a fleet is planned here, and only then the coordinator is submitted.
    async check(job) {
      assertVisible(job);
      await client.jobs();
    },
    prepare: refuse,
    workersFor: async ({ workers }) => ({ workers: workers.max ?? 1, notices: [] }),
    run: refuse,
    delegate: (job, call) => new OutsideCall(client, job, call, environment).run(),
    scheduled: {
      async render(job, location, isDev = false) {
        if (isDev) {
          const detail = "--dev with backend: ray";
          throw new SluiceError("UNSUPPORTED", detail, { hint: "only backend sky has it" });
        }
        const { name } = await packJob(job);
        const sent = submissionOf(job, location, 1, `gcs://${name}`, runCommand);
        const command = ["curl", "--data", "@ray-job.json", `${address}/api/jobs/`];
        return { text: `${JSON.stringify(sent, undefined, 2)}\n`, file: "ray-job.json", command };
      },
      async look(run) {
        const jobs = await jobsOf(client, run).catch(asSluiceError);
        // If the head is gone, the heartbeats in the run directory say who works.
        if (jobs instanceof SluiceError) return jobs.code === "RAY_UNREACHABLE" ? [] : jobs;
        return jobs.map(stateOf);
      },
      async cancel(run, untilLeft) {
        const active = (await jobsOf(client, run)).filter((job) => isActive(stateOf(job)));
        if (active.length > 0) await untilLeft();
        for (const { submission_id: id } of active) await endJob(client, id!);
        return active.length;
      },
      logs: (run, options) =>
        writeLogs(options, systemClock, async () => {
          const jobs = options.share ? [] : await jobsOf(client, run);
          return jobs.map(({ submission_id: id }) =>
            wholeLog(id!, async () => (await client.logs(id!)) ?? ""),
          );
        }),
    },
  };
}

/** The leader and the newest seal that a job finds, if there are some. */
interface Before {
  leader?: string | undefined;
  sealed?: string | undefined;
}

/** One call of `sluice run` or `sluice retry` that a coordinator on the cluster carries out. */
class OutsideCall {
  readonly #client: RayJobsClient;
  readonly #job: JobSpec;
  readonly #call: DelegatedCall;
  readonly #environment: Environment;

  constructor(client: RayJobsClient, job: JobSpec, call: DelegatedCall, environment: Environment) {
    this.#client = client;
    this.#job = job;
    this.#call = call;
    this.#environment = environment;
  }

  /** @returns undefined for a retry that finds no row. */
  async run(): Promise<RunResult | undefined> {
    const { signal, fork, retry, isDetached } = this.#call;
    if (fork) {
      const hint = "name another --output: this machine does not plan the run";
      throw new SluiceError("UNSUPPORTED", "--fork from outside of a Ray cluster", { hint });
    }
    assertVisible(this.#job);
    if (typeof retry?.reread === "object") assertSeenFile(this.#job, retry.reread.file);
    const { id, sent, before } = await this.#begin();
    let plan: Plan | undefined;
    try {
      const leader = await this.#untilLed(id, before);
      if (leader === undefined) return await this.#endOf(id, false);
      plan = await this.#untilPlanned(id, before);
      if (plan === undefined) return await this.#endOf(id, true);
      await this.#record(id, leader, sent, plan);
      if (isDetached) return await this.#left();
      return await this.#endOf(id, true, await this.#follow(id));
    } catch (error) {
      if (!signal.aborted || error !== signal.reason) throw error;
      if (asSluiceError(error).code !== "RUN_DETACHED") return await this.#stop(id, before);
      if (plan) return await this.#left();
      throw error;
    }
  }

  #follow(id: string): Promise<RunResult> {
    const { dependencies, onEvent, signal } = this.#call;
    const countPlaced = async () => (isActive(stateOf(await this.#client.job(id))) ? 1 : 0);
    return attachRun(this.#location, dependencies, {
      ...{ onEvent, signal },
      // If the head is gone, the heartbeats in the run directory say who works.
      countPlaced: () => countPlaced().catch(() => 0),
    });
  }

  get #location() {
    return locateRun(this.#job.output.path);
  }

  /** Opened anew each time: another run may take the directory. */
  #storage() {
    return runStorage(this.#call.dependencies.openStorage(this.#location.directory));
  }

  /** Submits the job, unless it is there. */
  async #begin() {
    const { signal } = this.#call;
    const { directory } = this.#location;
    const words = this.#words();
    const job = await identifiedJob(this.#job);
    const digest = digestOf([job, words]);
    const jobs = await jobsOf(this.#client, { location: directory });
    const live = jobs.findLast((job) => isActive(stateOf(job)));
    if (live) {
      const id = live.submission_id!;
      assertSame(live, digest);
      this.#notice(`the job is there already, as ray ${id}: nothing is submitted`);
      return { id, sent: live, before: live.metadata as Before };
    }
    const before = { leader: await this.#leader(), sealed: await this.#sealed() };
    const { name, archive } = await packJob(job);
    const uri = await this.#client.upload(name, archive);
    const number = 1 + Math.max(0, ...jobs.map(({ submission_id: id }) => numberOf(id!)));
    const { unfinished } = this.#call.retry ?? {};
    // It is the same retry, by whatever command.
    const told = unfinished ? [...words, onlyBegun] : words;
    const sent = submissionOf(job, directory, number, uri, told);
    sent.entrypoint = `${this.#trace()}${sent.entrypoint}`;
    // Another client that finds the job tells by it what the job found.
    Object.assign(sent.metadata, { digest, ...before });
    signal.throwIfAborted();
    await this.#client.submit(sent);
    // Another client may have taken the id at the same moment.
    assertSame(await this.#client.job(sent.submission_id), digest);
    this.#notice(`the coordinator is submitted as ray ${sent.submission_id}`);
    return { id: sent.submission_id, sent, before };
  }

  /** The command of the coordinator, whose job is in a file beside it. */
  #words(): string[] {
    const { overwrite, extend, install, retry } = this.#call;
    const flags = Object.entries({ overwrite, extend, "no-install": !install });
    const set = flags.flatMap(([flag, isSet]) => (isSet ? [`--${flag}`] : []));
    if (!retry) return [...runCommand, ...set];
    const { where, reread } = retry;
    const file = typeof reread === "object" ? `=${reread.file}` : "";
    const rows = ["--where", where, ...(reread ? [`--reread${file}`] : [])];
    const { path } = this.#job.output;
    const store = storeFlags(this.#job.store);
    return ["retry", path, "--config", "job.json", "--quiet", ...store, ...rows, ...set];
  }

  /** The variables by which the coordinator's spans join the trace of this call. */
  #trace(): string {
    const { TRACEPARENT, TRACESTATE } = this.#environment;
    const trace = this.#call.dependencies.trace ?? traceContextOf(TRACEPARENT, TRACESTATE);
    const { traceparent, tracestate } = trace ?? {};
    const variables = Object.entries({ TRACEPARENT: traceparent, TRACESTATE: tracestate });
    return variables
      .flatMap(([name, value]) => (value ? [`${name}=${quotedWord(value)} `] : []))
      .join("");
  }

  /** The coordinator of this job; undefined if the job ends without. */
  async #untilLed(id: string, before: Before): Promise<string | undefined> {
    const { signal } = this.#call;
    const startMs = systemClock.monotonic();
    for (let told = ""; ; ) {
      const found = await this.#leader(before);
      if (found !== undefined) return found;
      const { state, reason = "" } = stateOf(await this.#client.job(id));
      if (!isActive({ state })) return await this.#leader(before);
      const isLate = systemClock.monotonic() - startMs > maxQuietMs;
      if (isLate && state === "pending" && reason !== told) {
        this.#notice(`ray ${id} waits: ${reason}`);
        told = reason;
      }
      await sleep(systemClock, lookIntervalMs, signal);
    }
  }

  /** Undefined while the one before leads. */
  async #leader(before?: Before): Promise<string | undefined> {
    const found = (await leadingCoordinator(this.#storage()))?.id;
    return found === before?.leader ? undefined : found;
  }

  /** The newest seal. */
  async #sealed(): Promise<string | undefined> {
    const storage = this.#storage();
    const { runId = "" } = (await readJson<Plan>(storage, planPath)) ?? {};
    const { sealed } = await readSeals(storage, { runId });
    return sealed && `${sealed.runId} ${sealed.generation}`;
  }

  /** The plan of the run, or of the retry; undefined if the job ends without. */
  async #untilPlanned(id: string, before: Before): Promise<Plan | undefined> {
    const { retry, overwrite, signal } = this.#call;
    for (let isLast = false; ; ) {
      const plan = await readPlan(this.#storage());
      const sealed = await this.#sealed();
      // A job that replaces or extends a sealed run leads before it has read the input.
      const isNew = sealed === undefined || sealed !== before.sealed;
      // That of a run which is being replaced is not this job's.
      const begun = isNew || !overwrite ? await openRetry(this.#storage(), plan) : undefined;
      const found = begun ?? (isNew && !retry ? plan : undefined);
      if (found || isLast) return found;
      // It may have planned, answered and sealed since.
      isLast = !isActive(stateOf(await this.#client.job(id)));
      await sleep(systemClock, lookIntervalMs, signal);
    }
  }

  async #record(
    id: string,
    coordinator: string,
    sent: object,
    { generation }: Plan,
  ): Promise<void> {
    const storage = this.#storage();
    if ((await submissionsTo(storage, "ray")).some((each) => each.id === id)) return;
    await recordSubmission(storage, {
      ...{ scheduler: "ray", id, takers: 1, shares: "0", generation, coordinator },
      submittedAt: new Date(systemClock.now()).toISOString(),
      sent: JSON.stringify(sent),
    });
  }

  /** How the run stands when this process leaves it. */
  async #left(): Promise<RunResult> {
    const { dependencies, onEvent } = this.#call;
    const storage = this.#storage();
    const first = await readPlan(storage);
    const plan = (await openRetry(storage, first)) ?? first;
    const { clock } = dependencies;
    const facts = { storage, plan, clock, tasks: [], hasCoordinators: true, onEvent };
    const follower = new RunFollower(facts);
    const end = await follower.end([], new SluiceError("RUN_DETACHED"));
    const context = runContext(this.#location, plan, dependencies, "", storage);
    const places = placesOf(this.#location, plan.generation);
    return await stoppedResult(context, end, { ...places, resumedRows: 0, runTimeSec: 0 });
  }

  /** Stops the coordinator, which has time to write what it has. */
  async #stop(id: string, before: Before): Promise<RunResult | undefined> {
    const { dependencies, signal } = this.#call;
    const { clock, random } = dependencies;
    const hasLed = (await this.#leader(before)) !== undefined;
    if (hasLed) await requestCancel(this.#storage(), sortableId(clock, random));
    else await this.#client.stop(id);
    try {
      return await this.#endOf(id, hasLed);
    } catch {
      throw signal.reason;
    }
  }

  /**
   * The coordinator's own summary and exit code.
   *
   * @param hasLed false if the job never led: the run was sealed already.
   * @param followed what the run directory says: it counts if the coordinator could not end.
   *   Undefined if the coordinator did not plan.
   * @returns undefined for a retry that found no row.
   */
  async #endOf(id: string, hasLed: boolean, followed?: RunResult): Promise<RunResult | undefined> {
    try {
      const job = await endJob(this.#client, id);
      const { summary, error } = endIn((await this.#client.logs(id)) ?? "");
      const exitCode = job?.driver_exit_code ?? error?.exitCode;
      if (summary && exitCode !== undefined) {
        const stop = summary.sealed ? undefined : error;
        const wasSealed = summary.sealed && !hasLed;
        return { summary, exitCode, wasSealed, ...(stop && { error: stop }) };
      }
      const { retry } = this.#call;
      if (retry && exitCode === 0 && !followed) {
        // The job of a `sluice resume` finishes a retry and begins none.
        const isResume = job?.entrypoint?.endsWith(onlyBegun) ?? false;
        return isResume && !retry.unfinished ? await this.run() : undefined;
      }
      const why = `ray ${id}: ${stateOf(job).reason}`;
      if (followed?.error?.code === "WORKERS_GONE") {
        const storage = this.#call.dependencies.openStorage(this.#location.directory);
        const hint = `sluice logs ${runWords(storage)} says more; the same command continues`;
        return { ...followed, error: new SluiceError("WORKERS_GONE", why, { hint }) };
      }
      if (followed) return followed;
      throw error ?? new SluiceError("RAY_JOB_FAILED", why);
    } catch (error) {
      if (followed) return followed;
      throw error;
    }
  }

  #notice(message: string): void {
    this.#call.onEvent({ type: "notice", message });
  }
}

/** @throws SluiceError `DIRECTORY_NOT_SHARED`. */
const assertVisible = (job: JobSpec) => assertSeen(job, () => job.ray?.shared ?? false, sharedHint);

/** The coordinator reads the corrected rows. */
function assertSeenFile({ ray }: JobSpec, file: string): void {
  if (ray?.shared || schemeOf(file) !== undefined) return;
  const detail = `${file} is a local path, and the cluster does not see it`;
  const hint = "name a file in a store; if all nodes mount this one, set ray.shared: true";
  throw new SluiceError("DIRECTORY_NOT_SHARED", detail, { field: "--reread", hint });
}

const idPrefix = (location: string) => `sluice-${sha256Hex(location).slice(0, 16)}-`;
const numberOf = (id: string) => Number(/-(\d+)$/.exec(id)?.[1] ?? 0);

/** @throws SluiceError `COORDINATOR_LIVES` if a job of the run is not that of this call. */
function assertSame(job: RayJob | undefined, digest: string): void {
  if (!job || job.metadata?.digest === digest) return;
  const detail = `ray ${job.submission_id}, with another job or other flags`;
  throw new SluiceError("COORDINATOR_LIVES", detail);
}

function submissionOf(
  job: JobSpec,
  location: string,
  number: number,
  workingDirectory: string,
  command: readonly string[],
): RaySubmission {
  const id = `${idPrefix(location)}${number}`;
  const { python = "python3", software } = job.ray ?? {};
  const program =
    software === "installed"
      ? ["-m", "sluice_ray.node"]
      : ["python/sluice_ray/node.py", "--fetch-node", nodePackage];
  const words = [python, ...program, ...command].map(quotedWord).join(" ");
  return {
    submission_id: id,
    // Nothing secret: whoever sees the dashboard sees this.
    entrypoint: `SLUICE_RAY_JOB=${id} SLUICE_RAY_FILES="$PWD/files" exec ${words}`,
    runtime_env: { working_dir: workingDirectory },
    metadata: { sluice: location },
  };
}

/** The jobs of a run that the cluster remembers, in order. */
async function jobsOf(
  client: RayJobsClient,
  { location }: Pick<SubmittedRun, "location">,
): Promise<RayJob[]> {
  const jobs = await client.jobs();
  return jobs
    .filter(({ submission_id: id }) => id?.startsWith(idPrefix(location)))
    .sort((a, b) => numberOf(a.submission_id!) - numberOf(b.submission_id!));
}

const states = {
  PENDING: "pending",
  RUNNING: "running",
  STOPPED: "canceled",
  SUCCEEDED: "successful",
  FAILED: "failed",
} as const;

function stateOf(job: RayJob | undefined): ShareState {
  const id = job?.submission_id ?? "";
  const node = job?.driver_info?.node_ip_address;
  return {
    ...{ submission: id, share: 0, id, state: job ? states[job.status] : "failed" },
    reason:
      job?.message?.trim().split(/\n|, last available logs/)[0] ?? "Ray does not know it any more",
    ...(node && { node }),
    ...(typeof job?.driver_exit_code === "number" && { exitCode: job.driver_exit_code }),
  };
}

/** Waits for the end of a job; one that takes too long is stopped. */
async function endJob(client: RayJobsClient, id: string): Promise<RayJob | undefined> {
  const startMs = systemClock.monotonic();
  for (let isStopped = false; ; ) {
    const job = await client.job(id);
    if (!isActive(stateOf(job))) return job;
    const tookMs = systemClock.monotonic() - startMs;
    if (tookMs > maxEndMs && !isStopped) {
      isStopped = true;
      await client.stop(id);
    }
    if (tookMs > 2 * maxEndMs) return job;
    await sleep(systemClock, lookIntervalMs);
  }
}

/** The last words of a coordinator in a log, between lines of Ray. */
function endIn(log: string): { summary?: RunSummary; error?: SluiceError } {
  const lines = log.split("\n");
  const at = lines.findLastIndex((line) => /^error [A-Z_]+: /.test(line));
  const [, code = "", message = ""] = /^error ([A-Z_]+): (.*)$/.exec(lines[at] ?? "") ?? [];
  const hint = /^ {2}hint: (.*)$/.exec(lines[at + 1] ?? "")?.[1];
  const error = errorFromRecord({ code, message, hint } as never);
  return { ...summaryIn(lines), ...(code !== "" && { error }) };
}

function summaryIn(lines: readonly string[]): { summary?: RunSummary } {
  for (const line of lines.toReversed()) {
    if (!line.startsWith('{"status":')) continue;
    const summary = jsonObjectIn(line);
    // Other programs write to the same log.
    if (summary?.run_id !== undefined) return { summary: summary as unknown as RunSummary };
  }
  return {};
}
