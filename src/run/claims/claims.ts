import { removeAll } from "../../data/storage/remove-all.ts";
import type { Storage } from "../../data/storage/storage.ts";
import type { Clock } from "../../foundation/clock.ts";
import { eachAtOnce } from "../../foundation/each-at-once.ts";
import type { IndexRange } from "../../foundation/index-set.ts";
import { limits } from "../../foundation/limits.ts";
import type { Processes, ProcessIdentity } from "../coordinate/processes.ts";
import {
  claimOwnerPath,
  claimPath,
  claimsPrefix,
  type RunGeneration,
  sealPath,
  taskOfClaim,
} from "../directory/layout.ts";
import { createOnce, readJson, recordBytes } from "../directory/records.ts";

/** What a joining worker says: it is about to process these tasks. */
interface Claim extends IndexRange {
  owner: string;
}

/** A joining worker, as others see it. */
export interface OwnerRecord extends ProcessIdentity {
  beat: number;
  /** True once it processes no more tasks. */
  hasEnded: boolean;
}

/**
 * A claim with its place: among those of one key, the highest number counts. Whoever claims tasks
 * at the beginning of a gap takes its first task as the key, whoever claims at its end the last
 * one. So two claims of the same end have the same key, and only one is created.
 */
export interface StandingClaim extends Claim {
  key: number;
  number: number;
}

const requestsAtOnce = 32;

/** When the heartbeat of an owner moved last, and when we looked, on our own clock. */
interface Observation {
  beat: number;
  sinceMs: number;
  lookedMs: number;
}

export interface ClaimsOptions {
  storage: Storage;
  clock: Clock;
  processes: Processes;
  /** The plan whose tasks are claimed. */
  of: RunGeneration;
  owner: string;
}

/**
 * The claims of a run's joining workers. They keep two workers from processing the same task, and
 * show whose tasks nobody works on any more. They are hints: a wrong one costs work, and the commit
 * decides.
 */
export class Claims {
  readonly #options: ClaimsOptions;
  /** By their keys. */
  readonly #standing = new Map<number, StandingClaim>();
  readonly #seen = new Set<string>();
  readonly #observed = new Map<string, Observation>();
  /** Owners that have ended or died. */
  readonly #gone = new Set<string>();
  #beat = 0;
  #cancelTimer = () => {};
  #beating: Promise<void> = Promise.resolve();
  #hasEnded = false;

  constructor(options: ClaimsOptions) {
    this.#options = options;
  }

  /** Announces this worker, whose heartbeat moves from now on until `end`. */
  async begin(): Promise<void> {
    await this.#writeOwner();
    this.#scheduleBeat();
  }

  /**
   * Says that this worker processes no more tasks: others need not wait for what it left. A sealed
   * run has no claims, and nobody who waits.
   */
  async end(): Promise<void> {
    const { storage, of, owner } = this.#options;
    this.#cancelTimer();
    this.#hasEnded = true;
    await this.#beating;
    const isSealed = storage.stat(sealPath(of)).catch(() => undefined);
    const last = (await isSealed) ? storage.remove(claimOwnerPath(owner, of)) : this.#writeOwner();
    await last.catch(() => {});
  }

  /** Reads the claims that are new since the last call. */
  async read(): Promise<void> {
    const { storage, of } = this.#options;
    const fresh: string[] = [];
    for await (const { path } of storage.list(claimsPrefix(of))) {
      if (!this.#seen.has(path) && taskOfClaim(path, of) !== undefined) fresh.push(path);
    }
    await eachAtOnce(fresh, requestsAtOnce, async (path) => {
      const claim = await readJson<StandingClaim>(storage, path);
      this.#seen.add(path);
      if (claim) this.#note(claim);
    });
  }

  /**
   * Claims tasks that no claim covers, or that a stale claim of that key does.
   *
   * @param key default: the first task.
   * @returns false if another worker was faster; its claim is known then.
   */
  async claim({ first, last }: IndexRange, key = first): Promise<boolean> {
    const { storage, of, owner } = this.#options;
    const number = (this.#standing.get(key)?.number ?? 0) + 1;
    const path = claimPath(key, number, of);
    const claim: StandingClaim = { owner, first, last, key, number };
    const { won, record } = await createOnce(storage, path, claim, (it) => it.owner);
    this.#seen.add(path);
    this.#note(record);
    return won;
  }

  /** The ranges that stand, each with its owner. */
  standing(): Iterable<StandingClaim> {
    return this.#standing.values();
  }

  /** Ids of all workers that have claims, dead or alive. */
  owners(): Set<string> {
    return new Set(Array.from(this.#standing.values(), ({ owner }) => owner));
  }

  /**
   * Those of the owners that process their tasks no more: they ended or died, or their heartbeat
   * has not moved for `maxHeartbeatSilenceMs` of our own clock. The others may be alive.
   */
  async staleAmong(owners: Iterable<string>): Promise<Set<string>> {
    const others = new Set(owners);
    others.delete(this.#options.owner);
    const looks = Array.from(others, async (owner) => ((await this.#isStale(owner)) ? owner : []));
    return new Set((await Promise.all(looks)).flat());
  }

  async #isStale(owner: string): Promise<boolean> {
    const { storage, clock, processes, of } = this.#options;
    if (this.#gone.has(owner)) return true;
    const before = this.#observed.get(owner);
    // Until the next heartbeat is due, a look shows what the last one did.
    if (before && clock.monotonic() - before.lookedMs < limits.heartbeatIntervalMs) {
      return isSilent(before);
    }
    const record = await readJson<OwnerRecord>(storage, claimOwnerPath(owner, of));
    if (record && (record.hasEnded || processes.look(record) === "dead")) {
      this.#gone.add(owner);
      return true;
    }
    const beat = record?.beat ?? 0;
    const lookedMs = clock.monotonic();
    const sinceMs = before?.beat === beat ? before.sinceMs : lookedMs;
    const now = { beat, sinceMs, lookedMs };
    this.#observed.set(owner, now);
    return isSilent(now);
  }

  #note(claim: StandingClaim): void {
    const before = this.#standing.get(claim.key);
    if (!before || before.number < claim.number) this.#standing.set(claim.key, claim);
  }

  #scheduleBeat(): void {
    this.#cancelTimer = this.#options.clock.schedule(limits.heartbeatIntervalMs, () => {
      // A failed heartbeat costs at most work that is done twice; the next one may pass.
      this.#beating = this.#writeOwner().catch(() => {});
      void this.#beating.then(() => {
        if (!this.#hasEnded) this.#scheduleBeat();
      });
    });
  }

  #writeOwner(): Promise<void> {
    const { storage, processes, of, owner } = this.#options;
    const record: OwnerRecord = {
      ...processes.self(),
      beat: ++this.#beat,
      hasEnded: this.#hasEnded,
    };
    return storage.replace(claimOwnerPath(owner, of), recordBytes(record));
  }
}

const isSilent = ({ sinceMs, lookedMs }: Observation) =>
  lookedMs - sinceMs >= limits.maxHeartbeatSilenceMs;

/** Removes the claims of a generation that is sealed. Errors of the store are ignored. */
export async function removeClaims(storage: Storage, of: RunGeneration): Promise<void> {
  try {
    const paths: string[] = [];
    for await (const { path } of storage.list(claimsPrefix(of))) paths.push(path);
    await removeAll(storage, paths);
  } catch {
    // `sluice clean` removes what is left.
  }
}
