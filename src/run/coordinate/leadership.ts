import type { Storage } from "../../data/storage/storage.ts";
import { type Clock, sleep } from "../../foundation/clock.ts";
import { asSluiceError, type SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { leaderPaths } from "../directory/layout.ts";
import { createOnce, readJson, recordBytes } from "../directory/records.ts";
import type { Processes, ProcessIdentity } from "./processes.ts";

/** The record of a process that leads. The one with the highest number does. */
export interface LeaderRecord extends ProcessIdentity {
  number: number;
  /** Unique, so that a record identifies its writer. */
  id: string;
}

/** A file that a leader keeps changing while it lives. */
export interface Heartbeat {
  beat: number;
  /** When it began to lead (ISO 8601), and for how long; absent in older versions. */
  startedAt?: string;
  seconds?: number;
  /** True if the leader ended by itself. */
  ended: boolean;
}

/** What is led, and by whom. */
export interface LeadershipOptions {
  storage: Storage;
  clock: Clock;
  processes: Processes;
  id: string;
  prefix: string;
  /** The error while another process leads, and the error once another one does. */
  errors: Record<"lives" | "lost", (leader: LeaderRecord | undefined) => SluiceError>;
  signal?: AbortSignal | undefined;
}

/** What a leader does with each heartbeat. */
export interface HeartbeatCalls {
  /** Called before each heartbeat. @throws the error of a lost leadership. */
  assertLeads(): Promise<void>;
  onBeat?(): Promise<void>;
  /** Called once if another process leads; there are no more heartbeats. */
  onLost(error: SluiceError): void;
}

/** One leader at a time, over all hosts. */
export class Leadership<Leader extends LeaderRecord = LeaderRecord> {
  readonly record: Leader;
  readonly #options: LeadershipOptions;
  readonly #startedAt: number;
  readonly #startedMs: number;
  #beat = 0;
  #cancelTimer: (() => void) | undefined;
  #beating: Promise<void> = Promise.resolve();
  #isSilent = false;
  #hasEnded = false;

  private constructor(record: Leader, options: LeadershipOptions) {
    this.record = record;
    this.#options = options;
    this.#startedAt = options.clock.now();
    this.#startedMs = options.clock.monotonic();
  }

  /**
   * Acquires the leadership, at once if the last leader is known to be dead. It must then be
   * kept by heartbeats.
   *
   * @param facts what the record says beside the leader.
   * @throws SluiceError `errors.lives` while another process leads.
   */
  static async acquire<Leader extends LeaderRecord>(
    options: LeadershipOptions,
    facts: Omit<Leader, keyof LeaderRecord>,
  ): Promise<Leadership<Leader>> {
    const { storage, processes, prefix, id, errors } = options;
    let seen = 0;
    for (;;) {
      const standing = await leaderIn<Leader>(storage, prefix, seen);
      if (standing && (await isLeading(standing, options))) throw errors.lives(standing);
      const number = (standing?.number ?? 0) + 1;
      const record = { number, ...processes.self(), id, ...facts } as unknown as Leader;
      const { record: file } = leaderPaths(prefix, number);
      const { won } = await createOnce(storage, file, record, (it) => it.id);
      if (won) return new Leadership(record, options);
      seen = number;
    }
  }

  /** @throws SluiceError `errors.lost` if another process leads now. */
  async assertLeads(): Promise<void> {
    const { storage, prefix, errors } = this.#options;
    const leader = await leaderIn(storage, prefix, this.record.number);
    if (leader?.id !== this.record.id) throw errors.lost(leader);
  }

  async writeHeartbeat(): Promise<void> {
    const { storage, clock, prefix } = this.#options;
    const { heartbeat } = leaderPaths(prefix, this.record.number);
    const seconds = (clock.monotonic() - this.#startedMs) / 1000;
    const startedAt = new Date(this.#startedAt).toISOString();
    const state: Heartbeat = { beat: ++this.#beat, startedAt, seconds, ended: this.#hasEnded };
    await storage.replace(heartbeat, recordBytes(state));
  }

  /** Writes a heartbeat from time to time, until `end` or the loss of the leadership. */
  keep(calls: HeartbeatCalls): void {
    if (this.#isSilent) return;
    this.#cancelTimer = this.#options.clock.schedule(limits.heartbeatIntervalMs, () => {
      this.#beating = this.#tick(calls).then(
        () => this.keep(calls),
        (error: unknown) => {
          const failure = asSluiceError(error);
          const { code } = this.#options.errors.lost(undefined);
          if (failure.code === code) calls.onLost(failure);
          // A failed heartbeat is not the end: the next one may pass.
          else this.keep(calls);
        },
      );
    });
  }

  /** Gives up the leadership, so that the next leader need not wait. */
  async end(): Promise<void> {
    this.#isSilent = true;
    this.#cancelTimer?.();
    await this.#beating;
    this.#hasEnded = true;
    await this.writeHeartbeat().catch(() => this.#options.processes.ended?.add(this.record.id));
  }

  async #tick({ assertLeads, onBeat }: HeartbeatCalls): Promise<void> {
    await assertLeads();
    await this.writeHeartbeat();
    await onBeat?.();
  }
}

/**
 * The leader with the highest number, dead or alive.
 *
 * @param seen the number of a leader that a listing may still lack.
 */
export async function leaderIn<Leader extends LeaderRecord>(
  storage: Storage,
  prefix: string,
  seen = 0,
): Promise<Leader | undefined> {
  let highest = seen > 0 ? leaderPaths(prefix, seen).record : undefined;
  for await (const { path } of storage.list(prefix)) {
    if (path.endsWith(".json") && path > (highest ?? "")) highest = path;
  }
  return highest === undefined ? undefined : await readJson<Leader>(storage, highest);
}

/** The last heartbeat of a leader, which may have ended in this process without writing so. */
export async function heartbeatOf(
  { id, number }: LeaderRecord,
  { storage, processes, prefix }: Pick<LeadershipOptions, "storage" | "processes" | "prefix">,
): Promise<Heartbeat | undefined> {
  const last = await readJson<Heartbeat>(storage, leaderPaths(prefix, number).heartbeat);
  return processes.ended?.has(id) ? { beat: 0, ...last, ended: true } : last;
}

/** False where the process that wrote the record has ended. */
async function isLeading(record: LeaderRecord, options: LeadershipOptions): Promise<boolean> {
  const { clock, processes, signal } = options;
  const first = await heartbeatOf(record, options);
  if (first?.ended) return false;
  const seen = processes.look(record);
  if (seen !== "elsewhere") return seen === "alive";
  // Clocks of two machines are never compared: only whether the heartbeat moves, on our own clock.
  const start = clock.monotonic();
  while (clock.monotonic() - start < limits.coordinatorWatchMs) {
    await sleep(clock, limits.heartbeatIntervalMs / 2, signal);
    const now = await heartbeatOf(record, options);
    if (now?.ended) return false;
    if (now?.beat !== first?.beat) return true;
  }
  return false;
}
