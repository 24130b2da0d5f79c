import type { Clock } from "../../foundation/clock.ts";

/** Longest time to open a task that waiting rows should cover. */
export const maxOpenTaskMs = 5000;

/** Rows and time between two measurements of the settling rate. */
const rowsOfLook = 256;
const lookMs = 100;

/** Rows of those that should wait by which fewer must wait until it is told again, as a share. */
const toldShare = 0.25;

/** How much of the time that opening took before counts on when it took less. */
const openMsKept = 0.75;

/** Enough rows wait; too few wait; the engine has room. */
type Level = "enough" | "low" | "room";

/**
 * Reports in time that a worker could take another task. With a slow engine, that is when fewer
 * rows wait than it can hold. A fast engine settles many rows while a task is opened, above all
 * with a remote storage: then the next task must come while that many rows still wait.
 */
export class Backlog {
  readonly #clock: Clock;
  readonly #onLowBacklog: () => void;
  #level: Level = "enough";
  /** Waiting rows at the last report, or the most since then. */
  #toldAt = Number.POSITIVE_INFINITY;
  #openMs = 0;
  #settled = 0;
  #sinceMs: number | undefined;
  #rowsPerMs = 0;

  /** @param onLowBacklog called when too few rows wait, and again when they become fewer. */
  constructor(clock: Clock, onLowBacklog: () => void) {
    this.#clock = clock;
    this.#onLowBacklog = onLowBacklog;
  }

  /** Rows that settle while two tasks are opened one after the other. */
  get rowsAhead(): number {
    return Math.ceil(2 * this.#openMs * this.#rowsPerMs);
  }

  noteOpened(milliseconds: number): void {
    const kept = this.#openMs * openMsKept;
    const openMs = Math.max(milliseconds, kept + milliseconds * (1 - openMsKept));
    this.#openMs = Math.min(openMs, maxOpenTaskMs);
  }

  noteSettled(): void {
    if (++this.#settled % rowsOfLook !== 1) return;
    const nowMs = this.#clock.monotonic();
    const spentMs = nowMs - (this.#sinceMs ?? nowMs);
    if (spentMs < lookMs && this.#sinceMs !== undefined) return;
    this.#rowsPerMs = spentMs > 0 ? this.#settled / spentMs : 0;
    this.#settled = 0;
    this.#sinceMs = nowMs;
  }

  /** Checks the waiting rows, with `inFlight` of the engine's `capacity` in use. */
  look(waiting: number, capacity: number, inFlight: number): void {
    const wanted = Math.max(capacity, this.rowsAhead);
    const level: Level = waiting >= wanted ? "enough" : inFlight < capacity ? "room" : "low";
    // The dispatcher must not overestimate the waiting rows.
    const isFewer = level !== "enough" && waiting <= this.#toldAt - wanted * toldShare;
    const isNewlyLow = level === "low" && this.#level === "enough" && wanted === capacity;
    const isNewlyRoom = level === "room" && this.#level !== "room";
    const isTold = isNewlyLow || isNewlyRoom || (isFewer && wanted > capacity);
    this.#level = level;
    this.#toldAt = isTold ? waiting : Math.max(waiting, this.#toldAt);
    if (isTold) this.#onLowBacklog();
  }
}
