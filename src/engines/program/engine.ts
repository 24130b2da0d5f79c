import { afterEvents } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import {
  type InferenceRequest,
  type InferenceResponse,
  noOrigin,
  noUsage,
} from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import type { LeashEnd } from "../../foundation/leashed-process.ts";
import type { Engine, EngineContext, ProgramPlaces, ProgramTry } from "../engine.ts";
import { programFailure } from "../program-failure.ts";
import { redactor } from "../secrets.ts";
import { OutputLog } from "./log.ts";
import type { ProgramModelOptions } from "./options.ts";
import { openStarter, type ProgramStarter, type StartedProgram } from "./starter.ts";
import { type ProgramTask, programTask } from "./task.ts";

/** Time that a program has after SIGTERM. */
const stopGraceMs = 2000;

/** Tries outside of a run leave nothing. */
const nowhere = ({ clock, random }: EngineContext): ProgramPlaces => ({
  run: sortableId(clock, random),
  begin: async () => ({
    worker: null,
    mounts: [],
    log: async () => {},
    succeed: async (result) => result,
    close: async () => {},
  }),
});

/**
 * Opens an engine whose answer to a row is the end of a program: the row is a command, as in
 * `docs/fleets.md`. A program and its children end with this process, however that ends.
 */
export async function openProgram(
  options: ProgramModelOptions,
  context: EngineContext,
): Promise<Engine> {
  const places = context.programPlaces ?? nowhere(context);
  const starter = await openStarter(options, context, places.run);
  return new ProgramEngine(options, context, places, starter);
}

class ProgramEngine implements Engine {
  readonly name = "program";
  readonly choices: Readonly<Record<string, Json>>;
  readonly capacity: number;
  readonly #options: ProgramModelOptions;
  readonly #context: EngineContext;
  readonly #places: ProgramPlaces;
  readonly #starter: ProgramStarter;
  readonly #redact: (text: string) => string;
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  /** Callers that wait for a place, in order. */
  readonly #waiting: (() => void)[] = [];
  #busy = 0;

  constructor(
    options: ProgramModelOptions,
    context: EngineContext,
    places: ProgramPlaces,
    starter: ProgramStarter,
  ) {
    this.#starter = starter;
    this.choices = starter.choices;
    this.#options = options;
    this.#context = context;
    this.#places = places;
    this.#redact = redactor(context.environment);
    this.capacity = options.instances;
  }

  async infer(request: InferenceRequest, signal: AbortSignal): Promise<InferenceResponse> {
    const stop = AbortSignal.any([signal, this.#closing.signal]);
    stop.throwIfAborted();
    const { index } = request.origin ?? noOrigin;
    const task = programTask(request.row ?? {}, index, this.#options);
    await this.#place();
    const running = this.#run(task, stop);
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
      this.#busy--;
      this.#waiting.shift()?.();
    }
  }

  async close(): Promise<void> {
    this.#closing.abort(new SluiceError("ENGINE_DIED", "it was closed"));
    await Promise.allSettled(this.#running);
    await this.#starter.close();
  }

  async #place(): Promise<void> {
    if (this.#busy >= this.capacity) {
      await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    }
    this.#busy++;
  }

  async #run(task: ProgramTask, stop: AbortSignal): Promise<InferenceResponse> {
    stop.throwIfAborted();
    const { clock } = this.#context;
    const startedMs = clock.monotonic();
    const tried = await this.#places.begin(task, stop);
    try {
      const result = tried.done ?? (await this.#try(task, tried, stop));
      return {
        answers: [{ text: JSON.stringify(result), value: result, finishReason: "stop", tokens: 0 }],
        usage: noUsage,
        seconds: (clock.monotonic() - startedMs) / 1000,
      };
    } finally {
      await tried.close();
    }
  }

  /** @throws SluiceError unless the program ends well, and its results are staged out. */
  async #try(task: ProgramTask, tried: ProgramTry, stop: AbortSignal): Promise<JsonObject> {
    const { clock } = this.#context;
    const startedAt = new Date(clock.now()).toISOString();
    const startedMs = clock.monotonic();
    const elapsedMs = () => clock.monotonic() - startedMs;
    const log = (line: JsonObject) => tried.log(line);
    const output = new OutputLog({ log, redact: this.#redact, elapsedMs });
    await log({ start: { index: task.index, at: startedAt, worker: tried.worker } });
    const running = await this.#starter.start(task, tried.mounts);
    const [end, isLate] = await this.#untilEnd(running, output, stop);
    const seconds = Math.round(elapsedMs()) / 1000;
    const facts = { exitCode: end.code, how: end.how, isLate, leftOutChars: output.leftOut };
    await log({ end: { ...facts, seconds } });
    stop.throwIfAborted();
    if (isLate || end.code !== 0) {
      const timeoutMs = isLate ? this.#options.timeoutMs : undefined;
      throw programFailure({ how: end.how, timeoutMs, lastLine: output.lastLine });
    }
    return await tried.succeed({ exitCode: 0, startedAt, seconds });
  }

  /** How the program ended, and whether its time had run out. */
  async #untilEnd(
    program: StartedProgram,
    output: OutputLog,
    stop: AbortSignal,
  ): Promise<[end: LeashEnd, isLate: boolean]> {
    const { clock } = this.#context;
    const { timeoutMs } = this.#options;
    let isLate = false;
    let cancelKill = () => {};
    const end = () => {
      program.terminate();
      cancelKill = clock.schedule(stopGraceMs, () => program.kill());
    };
    const late = () => {
      // After a stall of this process, its timers fire before it hears of programs that ended.
      afterEvents(() => {
        if (program.hasEnded()) return;
        isLate = true;
        end();
      });
    };
    const cancelTimeout = timeoutMs === undefined ? () => {} : clock.schedule(timeoutMs, late);
    stop.addEventListener("abort", end, { once: true });
    if (stop.aborted) end();
    const reading = Promise.all([
      output.read(program.stdout, "out"),
      output.read(program.stderr, "err"),
    ]);
    // An output that cannot be stored ends the program; the failure is reported below.
    reading.catch(() => program.kill());
    const ended = await program.ended;
    cancelTimeout();
    cancelKill();
    // If the shell beside it was killed, the program would go on beside the next try.
    program.kill();
    stop.removeEventListener("abort", end);
    // Output that is there is read first; a child elsewhere may hold it open for ever.
    const giveUp = () => {
      program.stdout.destroy();
      program.stderr.destroy();
    };
    const cancelGiveUp = clock.schedule(stopGraceMs, giveUp);
    await reading.finally(cancelGiveUp);
    return [ended, isLate];
  }
}
