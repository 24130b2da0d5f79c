import { sleep } from "../../foundation/clock.ts";
import { asSluiceError, type ErrorRecord, SluiceError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import { formatIndexSet, rangesOf } from "../../foundation/index-set.ts";
import { lazily } from "../../foundation/lazily.ts";
import { limits } from "../../foundation/limits.ts";
import { parseMemory } from "../../foundation/memory-size.ts";
import { shareOf } from "../../foundation/shares.ts";
import { committedTasks } from "../../run/attempt/commits.ts";
import { requestCancel } from "../../run/coordinate/coordinator.ts";
import { runWords } from "../../run/directory/run-storage.ts";
import type { BackendRun } from "../../run/dispatch/backend.ts";
import { followTasks, type Placement } from "../../run/follow/follow-tasks.ts";
import type { RunFollower } from "../../run/follow/run-follower.ts";
import { recordSubmission, submissionsTo } from "../../run/submissions.ts";
import type { OpenBackend } from "../context.ts";
import { isActive, type Scheduler, type SchedulerClient, type ShareState } from "./scheduler.ts";

/** Time between two questions to the scheduler … */
const lookIntervalMs = 2000;
/** … and the share of it that answers may take: a busy cluster is asked less often. */
const maxLookShare = 0.05;
/** Time until a scheduler that did not answer is asked again while workers are heard. */
const failedLookIntervalMs = 30_000;
/** Time for workers to end, once the scheduler was told to end them. */
const maxStopMs = 60_000;

export interface JoiningOptions extends Pick<OpenBackend, "check" | "prepare"> {
  /** The command line of Sluice on the machines of workers. */
  program: readonly string[];
}

/** Each worker has Sluice, and checks and prepares its own machine before its first row. */
export const ownMachines: JoiningOptions = {
  ...{ program: ["sluice"], check: async () => {}, prepare: async () => {} },
};

/**
 * The backend of a scheduler that starts identical processes. They share the tasks among themselves
 * through the run directory, which this process follows.
 */
export function joiningBackend(
  scheduler: Scheduler,
  { program, check, prepare }: JoiningOptions = ownMachines,
): OpenBackend {
  return {
    name: scheduler.name,
    startAhead() {},
    close() {},
    async check(job, preparation) {
      await scheduler.check(job);
      await check(job, preparation);
    },
    prepare,
    async workersFor(job) {
      const { workers } = job;
      return {
        workers: workers.max ?? 1,
        notices: scheduler.notices?.(job) ?? [],
        ...(workers.cpu !== undefined && { cores: Math.max(1, Math.floor(workers.cpu)) }),
        ...(workers.memory !== undefined && { freeMemoryBytes: parseMemory(workers.memory) }),
      };
    },
    run: (run) => followTasks(run, new ShareWorkers(scheduler, run, program)),
    scheduled: {
      async render(job, location, isDev = false) {
        if (isDev) {
          if (scheduler.renderDev) return await scheduler.renderDev(job, program);
          const detail = `--dev with backend: ${scheduler.name}`;
          throw new SluiceError("UNSUPPORTED", detail, { hint: "only backend sky has it" });
        }
        const takers = job.workers.max ?? 1;
        const shares = Array.from({ length: takers }, (_, share) => share);
        return scheduler.render({ job, location, generation: 1, takers, shares, program });
      },
      look: (run) => scheduler.client.look(run).catch(asSluiceError),
      cancel: async (run, untilLeft) => {
        const active = (await scheduler.client.look(run)).filter(isActive);
        await endWorkers(scheduler.client, submissionsOf(active), untilLeft);
        return active.length;
      },
      logs: (run, options) => scheduler.client.logs(run, options),
    },
  };
}

class ShareWorkers implements Placement {
  readonly #scheduler: Scheduler;
  readonly #run: BackendRun;
  readonly #program: readonly string[];
  readonly #told = new Set<string>();
  #before = new Set<string>();
  #nextLookMs = Number.NEGATIVE_INFINITY;
  /** Since when no worker runs, and none can start. */
  #blockedSinceMs: number | undefined;
  /** Something may have been submitted. */
  #hasTried = false;
  #hasSubmitted = false;

  constructor(scheduler: Scheduler, run: BackendRun, program: readonly string[]) {
    this.#scheduler = scheduler;
    this.#run = run;
    this.#program = program;
  }

  /** Submits the open tasks, unless workers of an earlier call are there. */
  async begin(): Promise<void> {
    const { name } = this.#scheduler;
    const seen = await this.#look();
    const standing = seen.filter(isActive);
    this.#before = new Set(seen.filter((it) => !isActive(it)).map(({ id }) => id));
    if (standing.length > 0) {
      const ids = submissionsOf(standing).join(", ");
      const workers = standing.length === 1 ? "1 worker is" : `${standing.length} workers are`;
      this.#notice(`${workers} there already, as ${name} ${ids}: nothing is submitted`);
      return;
    }
    await this.#submit();
  }

  async #submit(): Promise<void> {
    const { job, location, context, workers } = this.#run;
    const committed = await committedTasks(context.storage, context.plan);
    const tasks = this.#run.tasks.filter((task) => !committed.has(task));
    const { generation, tasks: planned } = context.plan;
    const most = await this.#scheduler.client.maxShares();
    const { name } = this.#scheduler;
    if (workers > most && tasks.length > most) {
      this.#notice(`${name} takes at most ${most} workers at once here, not ${workers}`);
    }
    const { takers, shares } = sharesOf(tasks, planned.count, Math.min(workers, most), most);
    const program = this.#program;
    const work = { job, location, generation, takers, shares, program };
    const rendered = await this.#scheduler.render(work);
    this.#hasTried = true;
    const id = await this.#scheduler.client.submit(rendered);
    this.#hasSubmitted = true;
    await recordSubmission(context.storage, {
      scheduler: name,
      id,
      takers,
      shares: formatIndexSet(rangesOf(shares)),
      generation,
      coordinator: context.worker,
      submittedAt: new Date(context.clock.now()).toISOString(),
      sent: rendered.text,
    });
    const count = shares.length === 1 ? "1 worker" : `${shares.length} workers`;
    this.#notice(`${count} submitted as ${name} ${id}`);
  }

  async lostCause({
    hasWorkers,
    stops,
  }: Pick<RunFollower, "hasWorkers" | "stops">): Promise<SluiceError | undefined> {
    const { clock } = this.#run.context;
    if (clock.monotonic() < this.#nextLookMs) return undefined;
    const states = await this.#look().catch(asSluiceError);
    if (states instanceof SluiceError) {
      this.#tellOnce(`${this.#scheduler.name} does not answer: ${states.message}`);
      // The workers go on without an answer of the scheduler, and so does their run.
      if (!hasWorkers) throw states;
      this.#nextLookMs = clock.monotonic() + failedLookIntervalMs;
      return undefined;
    }
    for (const state of states) this.#tell(state);
    const blocked = hasWorkers ? undefined : await this.#blockedCause(states.filter(isActive));
    // Workers of other schedulers and of people help too.
    if (blocked || states.some(isActive) || hasWorkers) return blocked;
    if (!this.#hasSubmitted) {
      // The workers of an earlier call have left something.
      await this.#submit().catch((error: unknown) => {
        const { message } = asSluiceError(error);
        this.#tellOnce(`${this.#scheduler.name} takes no workers, and is asked again: ${message}`);
        throw error;
      });
      return undefined;
    }
    return this.#causeOf(states, stops);
  }

  /** Ends workers that the machines of the scheduler cannot start for too long. */
  async #blockedCause(active: readonly ShareState[]): Promise<SluiceError | undefined> {
    const nowMs = this.#run.context.clock.monotonic();
    const isBlocked = active.length > 0 && active.every(({ blockedBy }) => blockedBy === "start");
    this.#blockedSinceMs = isBlocked ? (this.#blockedSinceMs ?? nowMs) : undefined;
    if (nowMs - (this.#blockedSinceMs ?? nowMs) < limits.maxRoomWaitMs) return undefined;
    await this.stop(async () => true);
    const minutes = limits.maxRoomWaitMs / 60_000;
    const detail = `no worker could start within ${minutes} min: ${active[0]!.reason}`;
    return new SluiceError("SCHEDULER_REFUSED", detail);
  }

  #causeOf(states: readonly ShareState[], stops: readonly ErrorRecord[]): SluiceError {
    const { storage } = this.#run.context;
    const { name } = this.#scheduler;
    // What stopped a worker for good says more than that it is gone.
    const stop = stops.findLast(({ code }) => code !== "RUN_CANCELED");
    const ended = states.filter(({ id, state }) => state !== "successful" && !this.#before.has(id));
    const ids = ended.map(({ id, exitCode, state }) =>
      exitCode === undefined ? `${id} ${state}` : `${id} exit code ${exitCode}`,
    );
    const shown =
      ids.length > 5 ? `${ids.slice(0, 5).join(", ")} and ${ids.length - 5} more` : ids.join(", ");
    const hint = `sluice logs ${runWords(storage)} says why; the same command submits the rest again`;
    if (stop) {
      const error = new SluiceError(stop.code, "", { hint });
      error.message = shown === "" ? stop.message : `${stop.message} (${name} ${shown})`;
      return error;
    }
    const detail = shown === "" ? "tasks are open" : `tasks are open; ${name} ${shown}`;
    return new SluiceError("WORKERS_GONE", detail, { hint });
  }

  async stop(hasLeft: () => Promise<boolean>): Promise<void> {
    const { clock, random, storage } = this.#run.context;
    const { client, name } = this.#scheduler;
    const tell = lazily(() => requestCancel(storage, sortableId(clock, random)));
    const untilLeft = async () => {
      await tell();
      const startMs = clock.monotonic();
      while (clock.monotonic() - startMs < limits.maxLeaveMs) {
        if (await hasLeft().catch(() => false)) return;
        await sleep(clock, lookIntervalMs / 4);
      }
    };
    let isEnding = false;
    let sinceMs = clock.monotonic();
    /** @returns true once no worker is there. */
    const end = async () => {
      const seen = await this.#look().catch(asSluiceError);
      if (seen instanceof SluiceError) {
        // All that is on record may have workers.
        const submissions = await submissionsTo(storage, name);
        if (submissions.length === 0 && !this.#hasTried) return true;
        await endWorkers(
          client,
          submissions.map(({ id }) => id),
          untilLeft,
        );
        return seen;
      }
      const ids = submissionsOf(seen.filter(isActive));
      if (ids.length > 0 && !isEnding) {
        await endWorkers(client, ids, untilLeft);
        isEnding = true;
        sinceMs = clock.monotonic();
      }
      return ids.length === 0;
    };
    for (;;) {
      const ended = await end().catch(asSluiceError);
      if (ended === true) return;
      const isLate = clock.monotonic() - sinceMs >= maxStopMs;
      if (ended !== false) {
        await tell();
        const again = isLate ? `; sluice cancel ${runWords(storage)} tries again` : "";
        this.#tellOnce(`workers at ${name} may continue: ${ended.message}${again}`);
      }
      if (isLate) return;
      await sleep(clock, ended === false ? lookIntervalMs / 4 : lookIntervalMs);
    }
  }

  async #look(): Promise<ShareState[]> {
    const { context, location, job } = this.#run;
    const submissions = await submissionsTo(context.storage, this.#scheduler.name);
    const startMs = context.clock.monotonic();
    const seen = await this.#scheduler.client.look({ location, job, submissions });
    const nowMs = context.clock.monotonic();
    this.#nextLookMs = nowMs + Math.max(lookIntervalMs, (nowMs - startMs) / maxLookShare);
    return seen;
  }

  /** Says once why workers wait, and how one ended, if not well. */
  #tell({ id, share, state, exitCode, node, reason, blockedBy }: ShareState): void {
    if (blockedBy !== undefined && reason !== undefined) {
      this.#tellOnce(`${this.#scheduler.name} ${id} waits: ${reason}`, reason);
    }
    if ((state !== "failed" && state !== "canceled") || this.#before.has(id)) return;
    const place = node === undefined ? "" : ` on ${node}`;
    const how = exitCode === undefined ? state : `ended with exit code ${exitCode}`;
    const why = reason === undefined ? "" : ` (${reason})`;
    const { storage } = this.#run.context;
    const logs = `sluice logs ${runWords(storage)} --share ${share}`;
    this.#tellOnce(`${this.#scheduler.name} ${id}${place} ${how}${why}: ${logs}`, id);
  }

  #tellOnce(message: string, key = message): void {
    if (this.#told.has(key)) return;
    this.#told.add(key);
    this.#notice(message);
  }

  #notice(message: string): void {
    this.#run.onEvent({ type: "notice", message });
  }
}

async function endWorkers(
  client: SchedulerClient,
  ids: readonly string[],
  untilLeft: () => Promise<void>,
): Promise<void> {
  if (ids.length === 0) return;
  if (client.hold) {
    // A worker that starts nevertheless is ended with the others.
    await client.hold(ids).catch(() => {});
    await untilLeft();
  }
  await client.cancel(ids);
}

const submissionsOf = (states: readonly ShareState[]) => [
  ...new Set(states.map(({ submission }) => submission)),
];

/**
 * Divides all tasks into shares, so that those with open tasks are as many as workers are asked
 * for. After a loss in one share of four, that share is cut finer: its rest gets four workers too.
 *
 * @example
 * sharesOf([0, 1, 2, 3], 4, 2, 1000); // { takers: 2, shares: [0, 1] }
 * sharesOf([2, 3], 4, 2, 1000); // { takers: 4, shares: [2, 3] }
 */
export function sharesOf(
  open: readonly number[],
  tasks: number,
  workers: number,
  most: number,
): { takers: number; shares: number[] } {
  const limit = Math.min(tasks, most);
  let takers = Math.max(1, Math.min(workers, limit));
  let shares = busyShares(open, tasks, takers);
  for (let finer = takers; finer < limit && shares.length < workers; ) {
    finer = Math.min(Math.ceil(finer * 1.1), limit);
    const busy = busyShares(open, tasks, finer);
    if (busy.length <= workers) [takers, shares] = [finer, busy];
  }
  return { takers, shares };
}

function busyShares(open: readonly number[], tasks: number, takers: number): number[] {
  const busy = new Set<number>();
  let share = 0;
  for (const task of open) {
    while (task > (shareOf(tasks, share, takers)?.last ?? task)) share++;
    busy.add(share);
  }
  return [...busy];
}
