import { backoffMs } from "../foundation/backoff.ts";
import { type Clock, sleep, untilAborted } from "../foundation/clock.ts";
import { SluiceError } from "../foundation/errors.ts";
import { limits } from "../foundation/limits.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Random } from "../foundation/random.ts";

/** Last lines of a program that an error about its start shows. */
const maxShownStartLines = 8;

interface RestartingOptions<Live> {
  /** Its name, for messages. */
  name: string;
  /**
   * Starts it once. It is tried again only after an `EndedEarly`.
   *
   * @param signal aborted when it is no longer needed.
   */
  start: (signal: AbortSignal) => Promise<Live>;
  context: { clock: Clock; random: Random; logger: Logger };
}

/** A process ended before it was ready; another try may succeed. */
export class EndedEarly extends SluiceError {
  /** @param lines its output; the last ones are shown. */
  constructor(detail: string, lines: readonly string[], hint?: string) {
    const options = hint === undefined ? {} : { hint };
    super("ENGINE_START_FAILED", `${detail}${afterWriting(lines)}`, options);
  }
}

/** The last output of a process, to follow the message about its end. */
export function afterWriting(lines: readonly string[]): string {
  const tail = withoutFrames(lines).slice(-maxShownStartLines).join("\n  ");
  return tail === "" ? "" : `, after writing\n  ${tail}`;
}

/** Output without the stack frames of native code, which follow its reason and hide it. */
export function withoutFrames(lines: readonly string[]): string[] {
  return lines.filter((line) => !/\[0x[0-9a-f]+\]$/.test(line.trimEnd()));
}

/**
 * An engine's process, started again after a growing wait when it died. One that dies or does not
 * start too many times in a row is given up; after the longest wait it gets one more try. Many
 * callers share one start.
 */
export class Restarting<Live> {
  readonly #options: RestartingOptions<Live>;
  readonly #closing = new AbortController();
  /** The start that callers wait for, kept while its result lives. */
  #live: Promise<Live> | undefined;
  #failedStarts = 0;
  /** Deaths in a row without an answer between them. */
  #deaths = 0;
  #diedAtMs = 0;

  constructor(options: RestartingOptions<Live>) {
    this.#options = options;
  }

  /** Aborted once it was closed. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Starts it for the first time: a failure is final at once, not tried again. */
  open(): Promise<Live> {
    this.#live = this.#start();
    return this.#live;
  }

  /**
   * The living process, started again if it died: also if the signal's caller no longer waits.
   *
   * @throws SluiceError `ENGINE_START_FAILED` while it is given up; the reason of the closing; the
   *   signal's reason.
   */
  live(signal?: AbortSignal): Promise<Live> {
    if (this.#closing.signal.aborted) return Promise.reject(this.#closing.signal.reason);
    this.#live ??= this.#startAgain().catch((error) => {
      this.#live = undefined;
      throw error;
    });
    return signal ? untilAborted(this.#live, signal) : this.#live;
  }

  /** It answered: earlier failures no longer count. */
  noteAnswer(): void {
    this.#deaths = 0;
  }

  /** It ended. False if it was told to. */
  noteDeath(): boolean {
    this.#live = undefined;
    if (this.#closing.signal.aborted) return false;
    this.#deaths++;
    this.#diedAtMs = this.#options.context.clock.monotonic();
    return true;
  }

  /** Starts nothing any more. Returns the living process, which the caller must end; once. */
  async close(): Promise<Live | undefined> {
    if (this.#closing.signal.aborted) return undefined;
    this.#closing.abort(new SluiceError("ENGINE_DIED", "it was closed"));
    return this.#live?.catch(() => undefined);
  }

  async #startAgain(): Promise<Live> {
    const { name, context } = this.#options;
    const { clock, random, logger } = context;
    // It ends a run. A server lives on, and what killed its model may be over.
    const isRecent = clock.monotonic() - this.#diedAtMs < limits.backoffMaxMs;
    if (this.#deaths > limits.maxEngineDeaths && isRecent) {
      const detail = `it starts, but died ${this.#deaths} times in a row without an answer`;
      throw new SluiceError("ENGINE_START_FAILED", `${name}: ${detail}`);
    }
    for (;;) {
      const delayMs = backoffMs(this.#deaths + this.#failedStarts, random);
      await sleep(clock, delayMs, this.#closing.signal);
      try {
        return await this.#start();
      } catch (error) {
        const isLast = this.#failedStarts >= limits.maxEngineStarts;
        if (isLast || !(error instanceof EndedEarly)) throw error;
        logger.log("warn", `${name} did not start, trying again: ${error.message}`);
      }
    }
  }

  async #start(): Promise<Live> {
    this.#failedStarts++;
    const live = await this.#options.start(this.#closing.signal);
    this.#failedStarts = 0;
    return live;
  }
}
