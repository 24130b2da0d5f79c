import { sleep } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import type { Random } from "../../foundation/random.ts";
import { backoffMs } from "../../foundation/retry.ts";
import type { CommandItem, ReadyLine, ReplyLine } from "./protocol.ts";
import {
  EndedEarly,
  type ProgramContext,
  type ProgramOptions,
  RunningProgram,
} from "./running-program.ts";

/** What a program said as it got ready. */
export type OpenedProgram = ReadyLine & { pid: number | undefined };

/**
 * A program over all of its lives: when it ends, what it had is rejected with `ENGINE_DIED`, and
 * the next batch starts it again, after a growing wait.
 */
export class Program {
  readonly #options: ProgramOptions;
  readonly #context: ProgramContext & { random: Random };
  /** The start that batches wait for, kept while the program lives. */
  #running: Promise<RunningProgram> | undefined;
  readonly #closing = new AbortController();
  #nextBatch = 0;
  /** Starts in a row that did not get ready. */
  #failedStarts = 0;
  /** Deaths in a row with no answer between them. */
  #deaths = 0;

  constructor(options: ProgramOptions, context: ProgramContext & { random: Random }) {
    this.#options = options;
    this.#context = context;
  }

  /**
   * Starts it for the first time: a failure is final at once, not tried again.
   *
   * @throws SluiceError `ENGINE_START_FAILED`.
   */
  async open(): Promise<OpenedProgram> {
    this.#running = this.#start();
    const running = await this.#running;
    return { ...(await running.ready), pid: running.pid };
  }

  /**
   * Sends a batch and waits for its answer; one batch at a time.
   *
   * @throws SluiceError `ENGINE_DIED` where the program ended; `ENGINE_START_FAILED` where it does
   *   so again and again.
   */
  async ask(parameters: JsonObject, items: readonly CommandItem[]): Promise<ReplyLine> {
    const running = await this.#live();
    const reply = await running.ask({ batch: this.#nextBatch++, parameters, items });
    this.#deaths = 0;
    return reply;
  }

  async close(): Promise<void> {
    this.#closing.abort(new SluiceError("ENGINE_DIED", "it was closed"));
    const running = await this.#running?.catch(() => undefined);
    await running?.close();
  }

  #live(): Promise<RunningProgram> {
    if (this.#closing.signal.aborted) return Promise.reject(this.#closing.signal.reason);
    this.#running ??= this.#restart().catch((error) => {
      this.#running = undefined;
      throw error;
    });
    return this.#running;
  }

  async #restart(): Promise<RunningProgram> {
    const { clock, random, logger } = this.#context;
    if (this.#deaths > limits.maxEngineDeaths) {
      const detail = `it starts, but died ${this.#deaths} times in a row without an answer`;
      throw new SluiceError("ENGINE_START_FAILED", detail);
    }
    for (;;) {
      const delayMs = backoffMs(this.#deaths + this.#failedStarts, random);
      await sleep(clock, delayMs, this.#closing.signal);
      try {
        return await this.#start();
      } catch (error) {
        const isLast = this.#failedStarts >= limits.maxEngineStarts;
        if (isLast || !(error instanceof EndedEarly)) throw error;
        logger.log("warn", `the program did not start, trying again: ${error.message}`);
      }
    }
  }

  async #start(): Promise<RunningProgram> {
    this.#failedStarts++;
    const running = new RunningProgram(this.#options, this.#context);
    const stop = () => running.kill();
    this.#closing.signal.addEventListener("abort", stop, { once: true });
    try {
      await running.ready;
    } finally {
      this.#closing.signal.removeEventListener("abort", stop);
    }
    this.#failedStarts = 0;
    void running.ended.then((how) => this.#onEnd(running.pid, how));
    return running;
  }

  #onEnd(pid: number | undefined, how: string): void {
    this.#running = undefined;
    if (this.#closing.signal.aborted) return;
    this.#deaths++;
    this.#context.logger.log("warn", `the program ended: ${how}`, { pid });
  }
}
