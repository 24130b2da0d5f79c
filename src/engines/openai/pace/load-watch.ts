import type { Clock } from "../../../foundation/clock.ts";
import { isOwnHost } from "../../../foundation/reach.ts";
import { loadPages, type ServerLoad } from "./server-load.ts";

/** Time between two reads of a server's load. */
export const loadPollIntervalMs = 1000;

/** After this number of reads in a row without a figure, it stops. */
export const maxLoadMisses = 3;

interface LoadWatchOptions {
  clock: Clock;
  readPage(path: string): Promise<string | undefined>;
  /** Whether requests are in flight: otherwise the load does not matter. */
  isNeeded(): boolean;
  onLoad(load: ServerLoad): void;
  /** The server no longer reports its load. */
  onLost(): void;
}

/** Reads a server's load about every second, if it reports one. */
export class LoadWatch {
  readonly #options: LoadWatchOptions;
  /** The page with the load; undefined before one was found. */
  #page: string | undefined;
  /** Reads in a row without a figure. */
  #misses = 0;
  #isLooking = false;
  #isOver = false;
  #cancel: (() => void) | undefined;

  constructor(options: LoadWatchOptions) {
    this.#options = options;
  }

  /** Reads now, and then regularly while it is needed. */
  start(): void {
    if (this.#isOver || this.#isLooking || this.#cancel !== undefined) return;
    this.#isLooking = true;
    void this.#look().finally(() => {
      this.#isLooking = false;
      this.#schedule();
    });
  }

  close(): void {
    this.#isOver = true;
    this.#cancel?.();
  }

  #schedule(): void {
    if (this.#isOver || !this.#options.isNeeded()) return;
    this.#cancel = this.#options.clock.schedule(loadPollIntervalMs, () => {
      this.#cancel = undefined;
      this.start();
    });
  }

  async #look(): Promise<void> {
    const { onLoad, onLost } = this.#options;
    const load = await this.#load();
    if (this.#isOver) return;
    if (load !== undefined) {
      this.#misses = 0;
      onLoad(load);
      return;
    }
    this.#misses++;
    // A missing page does not appear later; a present one may be slow once.
    if (this.#page !== undefined && this.#misses < maxLoadMisses) return;
    this.#isOver = true;
    if (this.#page !== undefined) onLost();
  }

  async #load(): Promise<ServerLoad | undefined> {
    const { readPage } = this.#options;
    const pages = this.#page === undefined ? Object.keys(loadPages) : [this.#page];
    for (const page of pages) {
      const text = await readPage(page).catch(() => undefined);
      const load = text === undefined ? undefined : loadPages[page]!(text);
      if (load === undefined) continue;
      this.#page = page;
      return load;
    }
    return undefined;
  }
}

/**
 * Whether a server may be the user's own, so that its load may be read: hosted services, with https
 * and a public name, are never asked.
 */
export function isOwnServer(address: string): boolean {
  const { protocol, hostname } = new URL(address);
  return protocol === "http:" || isOwnHost(hostname);
}
