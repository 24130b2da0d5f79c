import { removeAll } from "../../data/storage/remove-all.ts";
import type { Storage } from "../../data/storage/storage.ts";
import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import {
  cancelPath,
  cancelPrefix,
  coordinatorPaths,
  coordinatorPrefix,
} from "../directory/layout.ts";
import { createOnce, readJson, recordBytes } from "../directory/records.ts";
import { assertStands } from "../directory/run-storage.ts";
import type { RunTraceContext } from "../execute/request-traces.ts";
import type { JobSpec } from "../job/schema.ts";
import { storedJob } from "../job/worker-variables.ts";
import { assertBegunSo } from "../plan/probe.ts";
import {
  type Heartbeat,
  type LeaderRecord,
  Leadership,
  type LeadershipOptions,
  leaderIn,
} from "./leadership.ts";
import type { Processes } from "./processes.ts";

/** The record of a coordinator. The one with the highest number leads the run. */
export interface CoordinatorRecord extends LeaderRecord {
  /** The job with the present settings; limits and endpoints may differ from the plan's. */
  job: JobSpec;
  /** The model as the job names it, before its limits were divided among workers. */
  ownModel?: JobSpec["model"];
  /** The span of its call, to which the requests of workers belong. */
  trace?: RunTraceContext;
}

export interface CoordinatorOptions {
  storage: Storage;
  clock: Clock;
  processes: Processes;
  id: string;
  job: JobSpec;
  ownModel?: JobSpec["model"];
  trace?: RunTraceContext | undefined;
  /** Requests to cancel that it need not obey; default: those that there are when it leads. */
  cancelsBefore?: number;
  signal?: AbortSignal;
}

/** A request to cancel a run, as it is stored. */
interface CancelRecord {
  id: string;
  /** Time for requests in flight; absent = `limits.stopGraceMs`. */
  graceMs?: number;
}

/** The reason of a stop that somebody asked for, who said how long requests in flight have. */
export class CancelRequest extends SluiceError {
  readonly graceMs: number;
  /** Aborted once somebody asks for `hurryMs` instead. */
  readonly hurry: AbortSignal;
  hurryMs = 0;

  constructor(graceMs: number, hurry: AbortSignal) {
    super("RUN_CANCELED");
    this.graceMs = graceMs;
    this.hurry = hurry;
  }
}

/** Files to remove between two checks of the leadership. */
const removalsAtOnce = 1000;

/** The leadership of a run: one coordinator at a time, over all hosts. */
export class Coordinator {
  readonly record: CoordinatorRecord;
  readonly #options: CoordinatorOptions;
  readonly #leadership: Leadership<CoordinatorRecord>;
  readonly #cancelsBefore: number;
  readonly #stop = new AbortController();
  readonly #hurry = new AbortController();

  private constructor(
    leadership: Leadership<CoordinatorRecord>,
    options: CoordinatorOptions,
    cancels: number,
  ) {
    this.record = leadership.record;
    this.#leadership = leadership;
    this.#options = options;
    this.#cancelsBefore = cancels;
  }

  /**
   * Acquires the leadership of a run, at once if the last coordinator is known to be dead. Then a
   * heartbeat keeps it until `end`, or until another coordinator leads.
   *
   * @throws SluiceError `COORDINATOR_LIVES` while another one is at work, and `USAGE` if the store
   *   is not used as the job says.
   */
  static async lead(options: CoordinatorOptions): Promise<Coordinator> {
    const { storage, job, ownModel, trace } = options;
    assertBegunSo(storage, job);
    const leadership = await Leadership.acquire<CoordinatorRecord>(
      { ...options, prefix: coordinatorPrefix, errors: leaderErrors },
      { job: storedJob(job), ...(ownModel && { ownModel }), ...(trace && { trace }) },
    );
    try {
      return await Coordinator.#begin(leadership, options);
    } catch (error) {
      await leadership.end();
      throw error;
    }
  }

  static async #begin(
    leadership: Leadership<CoordinatorRecord>,
    options: CoordinatorOptions,
  ): Promise<Coordinator> {
    const { storage } = options;
    await assertStands(storage);
    const cancels = await countCancels(storage);
    const coordinator = new Coordinator(leadership, options, options.cancelsBefore ?? cancels);
    await leadership.writeHeartbeat();
    await coordinator.#obeyCancels(cancels);
    leadership.keep({
      assertLeads: () => coordinator.assertLeads(),
      // A canceled run keeps its leader until it has stopped: its workers are still writing.
      onBeat: async () => coordinator.#obeyCancels(await countCancels(storage)),
      onLost: (error) => coordinator.#stop.abort(error),
    });
    return coordinator;
  }

  /** Aborted once leadership is lost or the run was canceled; the reason is the SluiceError. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /**
   * Records the job that workers get, for a leader that had to lead before it planned.
   *
   * @throws SluiceError `COORDINATOR_LOST`, and of the storage.
   */
  async present(job: JobSpec, ownModel: JobSpec["model"]): Promise<void> {
    Object.assign(this.record, { job: storedJob(job), ownModel });
    await this.assertLeads();
    const { record: path } = coordinatorPaths(this.record.number);
    await this.#options.storage.replace(path, recordBytes(this.record));
  }

  /** @throws SluiceError `COORDINATOR_LOST` if another process leads now. */
  async assertLeads(): Promise<void> {
    await this.#leadership.assertLeads();
    await assertStands(this.#options.storage);
  }

  /**
   * Removes files of the run in this order, as long as this process leads: after a long pause it
   * must not remove newer files of others.
   *
   * @throws SluiceError `COORDINATOR_LOST`, and of the storage.
   */
  async remove(paths: readonly string[], storage = this.#options.storage): Promise<void> {
    for (let at = 0; at < paths.length; at += removalsAtOnce) {
      await this.assertLeads();
      const some = paths.slice(at, at + removalsAtOnce);
      await removeAll(storage, some);
    }
  }

  /** Gives up the leadership, so that the next coordinator need not wait. */
  end(): Promise<void> {
    return this.#leadership.end();
  }

  async #obeyCancels(number: number): Promise<void> {
    if (number <= this.#cancelsBefore) return;
    const { storage } = this.#options;
    const { graceMs = limits.stopGraceMs } =
      (await readJson<CancelRecord>(storage, cancelPath(number))) ?? {};
    const { reason } = this.#stop.signal;
    if (!this.#stop.signal.aborted) {
      this.#stop.abort(new CancelRequest(graceMs, this.#hurry.signal));
    } else if (reason instanceof CancelRequest && graceMs < reason.graceMs) {
      reason.hurryMs = graceMs;
      this.#hurry.abort();
    }
  }
}

const leaderErrors: LeadershipOptions["errors"] = {
  lives: (leader) => leaderError("COORDINATOR_LIVES", leader),
  lost: (leader) => leaderError("COORDINATOR_LOST", leader),
};

function leaderError(
  code: "COORDINATOR_LIVES" | "COORDINATOR_LOST",
  leader: LeaderRecord | undefined,
): SluiceError {
  return new SluiceError(code, `process ${leader?.pid} on ${leader?.host}`);
}

/** The coordinator with the highest number, dead or alive. */
export function leadingCoordinator(storage: Storage): Promise<CoordinatorRecord | undefined> {
  return leaderIn(storage, coordinatorPrefix);
}

/** The jobs of the calls that carried out the run, as they were asked; the last one first. */
export async function* callJobs(storage: Storage): AsyncGenerator<JobSpec> {
  const files = await Array.fromAsync(storage.list(coordinatorPrefix));
  for (const { path } of files.reverse()) {
    if (!path.endsWith(".json")) continue;
    const { job, ownModel } = (await readJson<CoordinatorRecord>(storage, path)) ?? {};
    // Other leaders only removed or sealed, or are of an earlier version.
    if (job && ownModel) yield { ...job, model: ownModel };
  }
}

/** A period in which a coordinator led. */
export interface LeadTime {
  /** Milliseconds since 1970. */
  startedMs: number;
  seconds: number;
}

/** The periods of all coordinators in order; a dead one's ends with its last heartbeat. */
export async function leadTimes(storage: Storage): Promise<LeadTime[]> {
  const times: LeadTime[] = [];
  for await (const { path } of storage.list(coordinatorPrefix)) {
    if (!path.endsWith(".heartbeat")) continue;
    const { startedAt, seconds } = (await readJson<Heartbeat>(storage, path)) ?? {};
    if (startedAt === undefined || seconds === undefined) continue;
    times.push({ startedMs: Date.parse(startedAt), seconds });
  }
  return times;
}

/**
 * Tells the coordinator of a run, on any host, to stop.
 *
 * @param graceMs time for requests in flight; default `limits.stopGraceMs`.
 */
export async function requestCancel(storage: Storage, id: string, graceMs?: number): Promise<void> {
  const record: CancelRecord = { id, ...(graceMs !== undefined && { graceMs }) };
  for (let number = (await countCancels(storage)) + 1; ; number++) {
    const { won } = await createOnce(storage, cancelPath(number), record, (it) => it.id);
    if (won) return;
  }
}

/**
 * Calls back once if the run is canceled from now on, for processes that are not its coordinator.
 *
 * @returns a function that stops watching.
 */
export async function watchCancel(
  storage: Storage,
  clock: Clock,
  onCancel: () => void,
): Promise<() => void> {
  const before = await countCancels(storage);
  let cancelTimer = () => {};
  let hasEnded = false;
  const look = async () => {
    const cancels = await countCancels(storage).catch(() => before);
    if (hasEnded) return;
    if (cancels > before) onCancel();
    else schedule();
  };
  const schedule = () => {
    cancelTimer = clock.schedule(limits.heartbeatIntervalMs, () => void look());
  };
  schedule();
  return () => {
    hasEnded = true;
    cancelTimer();
  };
}

/** How often this run was canceled so far. */
export async function countCancels(storage: Storage): Promise<number> {
  let cancels = 0;
  for await (const _file of storage.list(cancelPrefix)) cancels++;
  return cancels;
}
