import type { Clock } from "../../../foundation/clock.ts";
import { limits } from "../../../foundation/limits.ts";
import { SerialQueue } from "../serial-queue.ts";
import type { Appender } from "../storage.ts";
import type { Spool } from "./spool.ts";

/** Assumed time until a preemptible machine is taken away. */
const meanTimeBetweenPreemptionsMs = 3_600_000;

/** Most complete segments of one object that wait to be stored. */
const maxWaitingSegments = 4;

/** A segment of this size is sent to the store. */
export const maxSegmentBytes = 16 * 1024 * 1024;

export interface SegmentAppenderOptions {
  path: string;
  /** Number of the first segment that it writes. */
  firstNumber: number;
  spool: Spool;
  clock: Clock;
  put(number: number, data: Uint8Array): Promise<void>;
  /** Milliseconds that storing the previous segment took. */
  putCostMs: number;
  onClose?(): void;
}

/**
 * How long appended bytes may wait on this machine before they are sent to the store: √(2 · time to
 * store a segment · mean time between two losses of a machine), at most 30 s.
 *
 * Source: Young, "A first order approximation to the optimum checkpoint interval", CACM 1974.
 */
export function flushIntervalMs(putCostMs: number): number {
  const derived = Math.sqrt(2 * Math.max(1, putCostMs) * meanTimeBetweenPreemptionsMs);
  return Math.min(derived, limits.maxSegmentAgeMs);
}

/**
 * Appends to a local file, and sends a segment to the store when it is large or old enough. A
 * killed process loses nothing; a lost machine loses what came after the last segment.
 */
export class SegmentAppender implements Appender {
  readonly #options: SegmentAppenderOptions;
  readonly #queue = new SerialQueue();
  readonly #puts = new SerialQueue();
  #segment: Appender | undefined;
  #number: number;
  #bytes = 0;
  #putCostMs: number;
  /** Complete segments that are not in the store yet. */
  #waiting = 0;
  #lastPut: Promise<void> = Promise.resolve();
  #cancelFlush: (() => void) | undefined;
  /** False once nobody will read the bytes that are not in the store yet. */
  #isNeeded = true;

  constructor(options: SegmentAppenderOptions) {
    this.#options = options;
    this.#number = options.firstNumber;
    this.#putCostMs = options.putCostMs;
  }

  append(data: Uint8Array): Promise<void> {
    return this.#queue.run(async () => {
      if (this.#waiting >= maxWaitingSegments) await this.#lastPut;
      this.#segment ??= await this.#begin();
      await this.#segment.append(data);
      this.#bytes += data.length;
      if (this.#bytes >= maxSegmentBytes) await this.#end();
    });
  }

  /** Makes everything appended survive a power loss of this machine. */
  sync(): Promise<void> {
    return this.#queue.run(async () => this.#segment?.sync());
  }

  /** Stores everything appended, or drops it from this machine if it is not needed. */
  async close({ isNeeded = true } = {}): Promise<void> {
    const { spool, path, onClose } = this.#options;
    onClose?.();
    this.#isNeeded &&= isNeeded;
    await this.#queue.run(() => this.#end()).finally(() => this.#segment?.close());
    await this.#lastPut;
    await spool.tidy(path);
  }

  async #begin(): Promise<Appender> {
    const { spool, path, clock } = this.#options;
    const segment = await spool.create(path, this.#number);
    this.#cancelFlush = clock.schedule(flushIntervalMs(this.#putCostMs), () => {
      // A failure is reported by the next append, or at the end.
      this.#queue.run(() => this.#end()).catch(() => {});
    });
    return segment;
  }

  /** Completes the segment, and stores it while others are written. */
  async #end(): Promise<void> {
    this.#cancelFlush?.();
    const segment = this.#segment;
    if (segment === undefined) return;
    this.#segment = undefined;
    await segment.close();
    const number = this.#number++;
    this.#bytes = 0;
    this.#waiting++;
    this.#lastPut = this.#puts.run(() => this.#put(number));
    this.#lastPut.catch(() => {});
  }

  async #put(number: number): Promise<void> {
    const { spool, path, clock, put } = this.#options;
    const data = this.#isNeeded ? await spool.read(path, number) : undefined;
    // Otherwise the run is over and its journals were removed.
    if (data !== undefined) {
      const begunMs = clock.monotonic();
      await put(number, data);
      this.#putCostMs = clock.monotonic() - begunMs;
    }
    await spool.remove(path, number);
    this.#waiting--;
  }
}
