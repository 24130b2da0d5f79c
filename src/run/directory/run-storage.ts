import { removeAll } from "../../data/storage/remove-all.ts";
import type { Leftover, Storage, StoredFile } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { quotedWord } from "../../foundation/shown-path.ts";
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

/** The part that all runs of a directory have in common. */
const sharedPrefixes = [plansPrefix, probePrefix, stdinPrefix];

/** The runs of a directory that replaced one another. */
interface Runs {
  /** Number of the present run; 1 if none was replaced. */
  standing: number;
  /** Number of the newest run whose predecessors are all removed. */
  cleared: number;
}

/**
 * The directory of a run from that run's view. Each run of a directory keeps its state under its
 * own number. So a late process of a replaced run can change nothing of the present one: they share
 * only published files.
 *
 * The number is that of the present run at the first use; it stays the same from then on.
 */
export class RunStorage implements Storage {
  readonly #base: Storage;
  #number: Promise<number> | undefined;
  readonly leftovers?: (prefix: string) => AsyncGenerator<Leftover>;

  /** @param number of the run; default: the present one. */
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

  get flags(): string | undefined {
    return this.#base.flags;
  }

  get createsOnce(): boolean | undefined {
    return this.#base.createsOnce;
  }

  /** The run's number in the directory, from 1. */
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

  /** The same directory from another run's view. */
  of(number: number): RunStorage {
    return new RunStorage(this.#base, number);
  }

  /** Number of the oldest run below this one that may have left files; undefined = none. */
  async oldestLeft(): Promise<number | undefined> {
    const number = await this.number;
    if (number === 1) return undefined;
    const { cleared } = await readRuns(this.#base);
    return cleared >= number ? undefined : Math.max(1, cleared);
  }

  /** Records that nothing is left of the runs before this one. */
  async noteCleared(): Promise<void> {
    await this.#base.createIfAbsent(clearedPath(await this.number), Buffer.from("{}\n"));
  }

  /** False once another run has replaced this one. */
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

  /** The files below a prefix: those of this run, or of all runs. */
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

  async removeAll(paths: readonly string[]): Promise<void> {
    const number = await this.number;
    await removeAll(
      this.#base,
      paths.map((path) => rawPath(path, number)),
    );
  }

  async #raw(path: string): Promise<string> {
    return rawPath(path, await this.number);
  }

  /** Their names may begin differently from the file that was being written. */
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

/** A run directory from the view of its present run. */
export function runStorage(base: Storage): RunStorage {
  return base instanceof RunStorage ? base : new RunStorage(base);
}

/**
 * A run as the arguments of a command that a message advises.
 *
 * @param place default: its directory.
 * @example
 * runWords(storage); // "s3://bucket/out --store.endpoint http://minio:9000"
 */
export function runWords({ location, flags = "" }: Storage, place = location): string {
  return quotedWord(place) + flags;
}

/** @throws SluiceError `COORDINATOR_LOST` if another run has replaced the storage's one. */
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

/** A path from the view of the run with this number; undefined if other runs share it. */
function ownPath(path: string, number: number): string | undefined {
  if (!path.startsWith(statePrefix)) return path;
  if (isShared(path)) return undefined;
  const [, other, rest] = /^_sluice\/r(\d+)\/(.*)$/s.exec(path) ?? [];
  if (other === undefined) return number === 1 ? path : undefined;
  return Number(other) === number ? `${statePrefix}${rest}` : undefined;
}
