import type { Storage } from "../../data/storage/storage.ts";
import { type Clock, sleep } from "../../foundation/clock.ts";
import { limits } from "../../foundation/limits.ts";
import type { OwnerRecord } from "../claims/claims.ts";
import {
  claimOwnersPrefix,
  coordinatorPrefix,
  type RunGeneration,
  workerPrefix,
} from "../directory/layout.ts";
import { readJson } from "../directory/records.ts";
import type { WorkerRecord } from "../worker/run-worker.ts";
import { type CoordinatorRecord, leadingCoordinator } from "./coordinator.ts";
import { heartbeatOf } from "./leadership.ts";
import { menderLeft } from "./menders.ts";
import type { Processes, ProcessIdentity } from "./processes.ts";

/** What other hosts can see of a process: its identity, and a file that it keeps changing. */
interface Observed {
  identity: ProcessIdentity;
  /** Unique; sorts by its time. */
  id: string;
  hasEnded: boolean;
  beat: number | undefined;
  /** Reads its heartbeat again. */
  look(): Promise<{ hasEnded: boolean; beat: number | undefined }>;
}

/** A process that works or worked on a run. */
export interface Life {
  lives: boolean;
  /** True if it ended by itself. If neither this nor `lives` is true, it died. */
  hasEnded: boolean;
}

/** The processes of a run, as seen from here. */
export interface RunLives {
  /** The leading coordinator; undefined if there never was one. */
  coordinator: (Life & { record: CoordinatorRecord }) | undefined;
  workers: (Life & { record: WorkerRecord })[];
}

export function isAtWork({ coordinator, workers }: RunLives): boolean {
  return coordinator?.lives === true || workers.some(({ lives }) => lives);
}

export interface LookOptions {
  processes: Processes;
  clock: Clock;
  signal?: AbortSignal;
}

/** Time in which the heartbeat of a process on another host must move. */
const watchMs = limits.heartbeatIntervalMs * 2.5;

/**
 * Finds the live processes of a run: on this host at once, on other hosts by watching their
 * heartbeats on our own clock for up to 5 s.
 */
export async function lookAtLives(storage: Storage, options: LookOptions): Promise<RunLives> {
  const record = await leadingCoordinator(storage);
  const records: WorkerRecord[] = [];
  for await (const { path } of storage.list(workerPrefix)) {
    const worker = await readJson<WorkerRecord>(storage, path);
    if (worker) records.push(worker);
  }
  const observed = records.map((worker) => observedWorker(storage, worker));
  if (record) {
    const { processes } = options;
    const look = async () => {
      const state = await heartbeatOf(record, { storage, processes, prefix: coordinatorPrefix });
      return { hasEnded: state?.ended ?? false, beat: state?.beat };
    };
    observed.push({ identity: record, id: record.id, look, ...(await look()) });
  }
  const living = await livingProcesses(observed, options);
  const ended = new Set(observed.filter(({ hasEnded }) => hasEnded).map(({ id }) => id));
  const lifeOf = (id: string): Life => ({ lives: living.has(id), hasEnded: ended.has(id) });
  return {
    coordinator: record && { record, ...lifeOf(record.id) },
    workers: records.map((worker) => ({ record: worker, ...lifeOf(worker.worker) })),
  };
}

/**
 * A process of the run that neither reported its end nor is known to be dead: it may be paused, and
 * write later.
 *
 * @param own number of the coordinator that asks.
 */
export async function someoneLeft(
  storage: Storage,
  processes: Processes,
  own?: number,
): Promise<ProcessIdentity | undefined> {
  for await (const { path } of storage.list(coordinatorPrefix)) {
    const record = path.endsWith(".json")
      ? await readJson<CoordinatorRecord>(storage, path)
      : undefined;
    if (!record || record.number === own) continue;
    const last = await heartbeatOf(record, { storage, processes, prefix: coordinatorPrefix });
    if (last?.ended) continue;
    if (processes.look(record) !== "dead") return record;
  }
  for await (const { path } of storage.list(workerPrefix)) {
    const worker = await readJson<WorkerRecord>(storage, path);
    if (!worker || worker.status === "successful") continue;
    if (processes.look(worker) !== "dead") return worker;
  }
  return await menderLeft(storage, processes);
}

/**
 * True while a joining worker has not left the run, on any host. The last one seals a run whose
 * tasks are all done, so such a run may still get its seal.
 */
export async function hasJoiner(
  storage: Storage,
  of: RunGeneration,
  options: LookOptions,
): Promise<boolean> {
  const joiners: Observed[] = [];
  for await (const { path } of storage.list(claimOwnersPrefix(of))) {
    const owner = await readJson<OwnerRecord>(storage, path);
    if (!owner) continue;
    const look = async () => (await readJson<OwnerRecord>(storage, path)) ?? gone;
    const { hasEnded, beat } = owner;
    joiners.push({ identity: owner, id: path, hasEnded, beat, look });
  }
  return (await livingProcesses(joiners, options)).size > 0;
}

/** A seal removes what joining workers said. */
const gone = { hasEnded: true, beat: undefined };

function observedWorker(storage: Storage, worker: WorkerRecord): Observed {
  const path = `${workerPrefix}${worker.worker}.json`;
  const asSeen = (now: WorkerRecord | undefined) => ({
    hasEnded: now?.status === "successful",
    beat: now?.beat,
  });
  return {
    identity: worker,
    id: worker.worker,
    ...asSeen(worker),
    look: async () => asSeen(await readJson<WorkerRecord>(storage, path)),
  };
}

async function livingProcesses(
  observed: readonly Observed[],
  { processes, clock, signal }: LookOptions,
): Promise<Set<string>> {
  const living = new Set<string>();
  let unknown: Observed[] = [];
  for (const process of observed) {
    if (process.hasEnded) continue;
    const seen = processes.look(process.identity);
    if (seen === "alive") living.add(process.id);
    else if (seen === "elsewhere") unknown.push(process);
  }
  const start = clock.monotonic();
  while (unknown.length > 0 && clock.monotonic() - start < watchMs) {
    await sleep(clock, limits.heartbeatIntervalMs / 4, signal);
    const still: Observed[] = [];
    for (const process of unknown) {
      const now = await process.look();
      if (now.hasEnded) process.hasEnded = true;
      else if (now.beat === process.beat) still.push(process);
      else living.add(process.id);
    }
    unknown = still;
  }
  return living;
}
