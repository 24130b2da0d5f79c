import type { JsonObject } from "../../foundation/json.ts";
import type { Random } from "../../foundation/random.ts";
import { Restarting } from "../restarting.ts";
import type { CommandItem, ReadyLine, ReplyLine } from "./protocol.ts";
import { type ProgramContext, type ProgramOptions, RunningProgram } from "./running-program.ts";

/** A program's message when it got ready. */
export type OpenedProgram = ReadyLine & { pid: number | undefined };

/**
 * A program over all of its lives: when it ends, its requests are rejected with `ENGINE_DIED`, and
 * the next batch starts it again, after a growing wait.
 */
export class Program {
  readonly #options: ProgramOptions;
  readonly #context: ProgramContext & { random: Random };
  readonly #lives: Restarting<RunningProgram>;
  #nextBatch = 0;

  constructor(options: ProgramOptions, context: ProgramContext & { random: Random }) {
    this.#options = options;
    this.#context = context;
    this.#lives = new Restarting({
      name: "the program",
      start: (closing) => this.#start(closing),
      context,
    });
  }

  /**
   * Starts it for the first time: a failure is final at once, not tried again.
   *
   * @throws SluiceError `ENGINE_START_FAILED`.
   */
  async open(): Promise<OpenedProgram> {
    const running = await this.#lives.open();
    return { ...(await running.ready), pid: running.pid };
  }

  /**
   * Sends a batch and waits for its answer; one batch at a time.
   *
   * @throws SluiceError `ENGINE_DIED` if the program ended; `ENGINE_START_FAILED` if it ends
   *   repeatedly.
   */
  async ask(parameters: JsonObject, items: readonly CommandItem[]): Promise<ReplyLine> {
    const running = await this.#lives.live();
    const reply = await running.ask({ batch: this.#nextBatch++, parameters, items });
    this.#lives.noteAnswer();
    return reply;
  }

  async close(): Promise<void> {
    const running = await this.#lives.close();
    await running?.close();
  }

  async #start(closing: AbortSignal): Promise<RunningProgram> {
    const running = new RunningProgram(this.#options, this.#context);
    const stop = () => running.kill();
    closing.addEventListener("abort", stop, { once: true });
    try {
      await running.ready;
    } finally {
      closing.removeEventListener("abort", stop);
    }
    void running.ended.then((how) => this.#onEnd(running.pid, how));
    return running;
  }

  #onEnd(pid: number | undefined, how: string): void {
    if (!this.#lives.noteDeath()) return;
    this.#context.logger.log("warn", `the program ended: ${how}`, { pid });
  }
}
