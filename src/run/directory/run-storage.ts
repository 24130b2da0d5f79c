import type { Leftover, Storage, StoredFile } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import {
  clearedPath,
  planPath,
  plansPrefix,
  probePrefix,
  replacingPlanPath,
  statePrefix,
  stateSuffixOf,
  stdinPrefix,
} from "./layout.ts";

/** What all runs of a directory have in common. */
const sharedPrefixes = [plansPrefix, probePrefix, stdinPrefix];

/** The runs of a directory that replaced one another. */
interface Runs {
  /** Number of the one that stands; 1 where none was replaced. */
  standing: number;
  /** Number of the newest whose predecessors are all removed. */
  cleared: number;
}

/**
 * The directory of a run as the run knows it. Each run of a directory has its state to itself,
 * under its number, so that a process of a run that was replaced, which wakes late, can change
 * nothing of the one that stands: it shares published files with it, and no others.
 *
 * Its number is that of the run that stands when it is first used; it stays the same from then on.
 */
export class RunStorage implements Storage {
  readonly #base: Storage;
  #number: Promise<number> | undefined;
  readonly leftovers?: (prefix: string) => AsyncGenerator<Leftover>;

  /** @param number of the run; default: the one that stands. */
  constructor(base: Storage, number?: number) {
    this.#base = base;
    if (number !== undefined) this.#number = Promise.resolve(number);
    if (base.leftovers) {
      this.leftovers = (prefix) => this.#leftovers(prefix, (raw) => base.leftovers!(raw));
    }
  }

  get location(): string {
    return this.#base.location;
  }

  get createsOnce(): boolean | undefined {
    return this.#base.createsOnce;
  }

  /** Which run of the directory it is of, from 1. */
  get number(): Promise<number> {
    this.#number ??= readRuns(this.#base).then(
      ({ standing }) => standing,
      (error: unknown) => {
        this.#number = undefined;
        throw error;
      },
    );
    return this.#number;
  }

  /** The same directory as another run of it knows it. */
  of(number: number): RunStorage {
    return new RunStorage(this.#base, number);
  }

  /** Number of the oldest run that may have left something, below this one's; undefined = none. */
  async oldestLeft(): Promise<number | undefined> {
    const number = await this.number;
    if (number === 1) return undefined;
    const { cleared } = await readRuns(this.#base);
    return cleared >= number ? undefined : Math.max(1, cleared);
  }

  /** Notes that nothing is left of the runs before this one. */
  async noteCleared(): Promise<void> {
    await this.#base.createIfAbsent(clearedPath(await this.number), Buffer.from("{}\n"));
  }

  /** False once another run has taken this one's place. */
  async stands(): Promise<boolean> {
    const number = await this.number;
    return (await readRuns(this.#base)).standing <= number;
  }

  async read(path: string): Promise<Uint8Array> {
    return await this.#base.read(await this.#raw(path));
  }

  async open(path: string) {
    return await this.#base.open(await this.#raw(path));
  }

  async stat(path: string): Promise<StoredFile | undefined> {
    const found = await this.#base.stat(await this.#raw(path));
    return found && { ...found, path };
  }

  /** What lies below a prefix, without what other runs have, or all of them. */
  async *list(prefix: string): AsyncGenerator<StoredFile> {
    const number = await this.number;
    for await (const file of this.#base.list(rawPrefix(prefix, number))) {
      const path = isShared(prefix) ? file.path : ownPath(file.path, number);
      if (path?.startsWith(prefix)) yield path === file.path ? file : { ...file, path };
    }
  }

  async createIfAbsent(path: string, data: Uint8Array, options?: { isLasting?: boolean }) {
    return await this.#base.createIfAbsent(await this.#raw(path), data, options);
  }

  async replace(path: string, data: Uint8Array): Promise<void> {
    await this.#base.replace(await this.#raw(path), data);
  }

  async appender(path: string, options?: { isNew?: boolean }) {
    return await this.#base.appender(await this.#raw(path), options);
  }

  async writer(path: string) {
    return await this.#base.writer(await this.#raw(path));
  }

  async publish(from: string, to: string): Promise<void> {
    await this.#base.publish(await this.#raw(from), await this.#raw(to));
  }

  async remove(path: string): Promise<void> {
    await this.#base.remove(await this.#raw(path));
  }

  async #raw(path: string): Promise<string> {
    return rawPath(path, await this.number);
  }

  /** Their names need not begin as those of what was being written. */
  async *#leftovers(
    prefix: string,
    list: (raw: string) => AsyncIterable<Leftover>,
  ): AsyncGenerator<Leftover> {
    const number = await this.number;
    for await (const leftover of list(rawPrefix(prefix, number))) {
      const { path: raw } = leftover;
      const path = isShared(raw) ? raw : ownPath(raw, number);
      if (path !== undefined) yield { ...leftover, path };
    }
  }
}

/** A run directory, as the run that stands there knows it. */
export function runStorage(base: Storage): RunStorage {
  return base instanceof RunStorage ? base : new RunStorage(base);
}

/** @throws SluiceError `COORDINATOR_LOST` when another run has taken the place of the storage's. */
export async function assertStands(storage: Storage): Promise<void> {
  if (!(storage instanceof RunStorage) || (await storage.stands())) return;
  throw new SluiceError("COORDINATOR_LOST", "the run was replaced");
}

async function readRuns(base: Storage): Promise<Runs> {
  const runs: Runs = { standing: 1, cleared: 1 };
  for await (const { path } of base.list(plansPrefix)) {
    const number = Number.parseInt(path.slice(plansPrefix.length), 10);
    if (path === replacingPlanPath(number)) runs.standing = Math.max(runs.standing, number);
    else if (path === clearedPath(number)) runs.cleared = Math.max(runs.cleared, number);
  }
  return runs;
}

function isShared(path: string): boolean {
  return sharedPrefixes.some((prefix) => path.startsWith(prefix));
}

function rawPath(path: string, number: number): string {
  if (number === 1 || !path.startsWith(statePrefix) || isShared(path)) return path;
  if (path === planPath) return replacingPlanPath(number);
  return `${statePrefix}${stateSuffixOf(number)}${path.slice(statePrefix.length)}`;
}

function rawPrefix(prefix: string, number: number): string {
  return prefix.startsWith(statePrefix) ? rawPath(prefix, number) : prefix;
}

/** A path as the run with this number knows it; undefined where it is of others as well. */
function ownPath(path: string, number: number): string | undefined {
  if (!path.startsWith(statePrefix)) return path;
  if (isShared(path)) return undefined;
  const [, other, rest] = /^_sluice\/r(\d+)\/(.*)$/s.exec(path) ?? [];
  if (other === undefined) return number === 1 ? path : undefined;
  return Number(other) === number ? `${statePrefix}${rest}` : undefined;
}
