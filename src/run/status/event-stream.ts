import type { Appender, Storage } from "../../data/storage/storage.ts";
import type { Clock } from "../../foundation/clock.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import type { Logger } from "../../foundation/logger.ts";
import { eventLogPath } from "../directory/layout.ts";
import { recordBytes } from "../directory/records.ts";
import type { RunEvent } from "./events.ts";
import { initialProgress, progressOf, reduceProgress } from "./progress-state.ts";

/** Events that are not worth their storage: `run-progress` sums them up. */
const unkept: ReadonlySet<RunEvent["type"]> = new Set([
  "task-progress",
  "plan-progress",
  "budget-progress",
]);

/** Events after which a process has no further progress to report. */
const ends: ReadonlySet<RunEvent["type"]> = new Set(["run-stop", "run-seal"]);

export interface EventStreamOptions {
  /** Rooted at the run directory. */
  storage: Storage;
  clock: Clock;
  logger: Logger;
  /** The number of a coordinator, or the id of a joining worker. */
  writer: number | string;
  /** Called with every event, also with those that are not stored. */
  onEvent(event: RunEvent): void;
}

/**
 * The events of one process of a run: each goes to a listener and, as a line, to a file of that
 * process in the run directory, from which `status` reads. A line has the time, the writer and a
 * sequence number. The file is information only: a run continues without it.
 *
 * @example
 * const events = await EventStream.open({ storage, clock, logger, writer: 1, onEvent });
 * events.add({ type: "notice", message: "the input holds no row" });
 * await events.close();
 */
export class EventStream {
  readonly #options: EventStreamOptions;
  readonly #writer: string;
  #appender: Appender | undefined;
  #sequence = 0;
  #pending: Buffer[] = [];
  #writing: Promise<void> | undefined;
  #progress;
  #cancelTimer: (() => void) | undefined;
  /** Others store the events of the work, and their progress. */
  #isFollowing = false;

  private constructor(options: EventStreamOptions, appender: Appender | undefined) {
    this.#options = options;
    this.#writer = String(options.writer);
    this.#appender = appender;
    this.#progress = initialProgress(options.clock.monotonic());
  }

  static async open(options: EventStreamOptions): Promise<EventStream> {
    const { storage, logger, writer } = options;
    const appender = await storage.appender(eventLogPath(writer)).catch((error: unknown) => {
      logger.log("warn", `no event log: ${asSluiceError(error).message}`);
      return undefined;
    });
    return new EventStream(options, appender);
  }

  /**
   * Takes an event; bound, so that it can be passed as a listener.
   *
   * @param isStored a worker has written it to its own file: it is only passed on.
   */
  readonly add = (event: RunEvent, isStored = false): void => {
    const { clock, onEvent } = this.#options;
    this.#isFollowing ||= isStored;
    this.#progress = reduceProgress(this.#progress, event, clock.monotonic());
    if (event.type === "run-start") this.#tellLater();
    if (ends.has(event.type)) this.#cancelTimer?.();
    // Readers add up the progress of all files.
    const isTwice = isStored || (event.type === "run-progress" && this.#isFollowing);
    if (!unkept.has(event.type) && !isTwice) this.#keep(event);
    onEvent(event);
  };

  async close(): Promise<void> {
    this.#cancelTimer?.();
    await this.#writing;
    await this.#appender?.close().catch(() => {});
    this.#appender = undefined;
  }

  #tellLater(): void {
    const { clock } = this.#options;
    this.#cancelTimer = clock.schedule(limits.runProgressIntervalMs, () => {
      this.#tellLater();
      this.add({ type: "run-progress", ...progressOf(this.#progress, clock.monotonic()) });
    });
  }

  #keep(event: RunEvent): void {
    if (!this.#appender) return;
    const time = new Date(this.#options.clock.now()).toISOString();
    const sequence = this.#sequence++;
    this.#pending.push(recordBytes({ time, writer: this.#writer, sequence, ...event }));
    this.#writing ??= this.#drain();
  }

  async #drain(): Promise<void> {
    try {
      while (this.#pending.length > 0 && this.#appender) {
        await this.#appender.append(Buffer.concat(this.#pending.splice(0)));
      }
    } catch (error) {
      const failed = this.#appender;
      this.#appender = undefined;
      await failed?.close().catch(() => {});
      this.#options.logger.log("warn", `no event log: ${asSluiceError(error).message}`);
    }
    // Synchronous with the last write: a later event must begin a write of its own.
    this.#writing = undefined;
  }
}
