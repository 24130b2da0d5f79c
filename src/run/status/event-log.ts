import type { Appender } from "../../data/storage/storage.ts";
import type { Clock } from "../../foundation/clock.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import type { Logger } from "../../foundation/logger.ts";
import { eventLogPath } from "../directory/layout.ts";
import { recordBytes } from "../directory/records.ts";
import type { RunContext } from "../run-context.ts";
import type { RunEvent } from "./events.ts";

/** Events that say too little for what they would cost on storage. */
const unlogged: ReadonlySet<RunEvent["type"]> = new Set([
  "task-progress",
  "plan-progress",
  "budget-progress",
]);

/**
 * The log of one coordinator, as JSON lines in the run directory. It is information only: where it
 * cannot be written the run goes on without.
 */
export class EventLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #appender: Appender | undefined;
  #pending: Buffer[] = [];
  #writing: Promise<void> | undefined;

  private constructor({ clock, logger }: RunContext, appender: Appender | undefined) {
    this.#clock = clock;
    this.#logger = logger;
    this.#appender = appender;
  }

  static async open(context: RunContext, coordinator: number): Promise<EventLog> {
    const path = eventLogPath(coordinator);
    const appender = await context.storage.appender(path).catch((error: unknown) => {
      context.logger.log("warn", `no event log: ${asSluiceError(error).message}`);
      return undefined;
    });
    return new EventLog(context, appender);
  }

  add(event: RunEvent): void {
    if (unlogged.has(event.type) || !this.#appender) return;
    const time = new Date(this.#clock.now()).toISOString();
    this.#pending.push(recordBytes({ time, ...event }));
    this.#writing ??= this.#drain();
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.#appender?.close().catch(() => {});
  }

  async #drain(): Promise<void> {
    try {
      while (this.#pending.length > 0 && this.#appender) {
        await this.#appender.append(Buffer.concat(this.#pending.splice(0)));
      }
    } catch (error) {
      this.#appender = undefined;
      this.#logger.log("warn", `no event log: ${asSluiceError(error).message}`);
    }
    // Not later than nothing was left: an event that comes next must begin a write of its own.
    this.#writing = undefined;
  }
}
