import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { resultLines } from "../api/inspect.ts";
import { type RunOptions, runWith, surroundingsOf } from "../api/run.ts";
import { runDependencies } from "../api/run-dependencies.ts";
import { type InputJob, inputFacts, inputLines, streamJob } from "../api/stream.ts";
import type { Storage } from "../data/storage/storage.ts";
import type { StageState } from "../engines/engine.ts";
import { asSluiceError, SluiceError, wordedError } from "../foundation/errors.ts";
import type { JsonObject } from "../foundation/json.ts";
import { silentLogger } from "../foundation/logger.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import type { JobInput } from "../run/job/schema.ts";
import type { RunResult } from "../run/status/run-result.ts";
import {
  fileNameOf,
  fileNameOfRows,
  type Lines,
  storedInput,
  storedLines,
  throughBarrier,
} from "./barrier.ts";
import {
  type Barrier,
  jobOfSegment,
  linesOfRows,
  type Segment,
  segmentOf,
  withStep,
} from "./segment.ts";
import { StageTally } from "./stage-tally.ts";
import type { Pipeline, Source } from "./step.ts";

/** Job keys that also apply to the runs of stages before a barrier. */
export type InterimJob = Omit<Partial<JobInput>, "input" | "model" | "output">;

/** How interim rows are made, and what the runs of stages before a barrier may use. */
export interface WorkshopOptions extends RunOptions {
  /** `model.resources` of a job. */
  resources?: JsonObject;
  job?: InterimJob;
}

/** Steps that are carried out for a barrier behind them. */
interface Before {
  segment: Segment;
  step: Barrier;
  /** Whether results are in the form of `toWire`. */
  isTyped: boolean;
  /** Folder of their run. */
  name: string;
}

/** Runs everything that has to be done before the last job of a pipeline can be planned. */
export class Workshop {
  readonly #storage: Storage;
  readonly #options: WorkshopOptions;
  /** True if stages before a barrier are kept as runs beside the output, which can be resumed. */
  readonly #keepsRuns: boolean;
  readonly interimRuns: RunResult[] = [];
  /** A run before the last one that stopped: nothing behind it can be planned. */
  stoppedRun: RunResult | undefined;
  readonly tally = new StageTally();
  #temporary: string | undefined;
  #standing: Storage | undefined;
  #barriers = 0;

  private constructor(storage: Storage, options: WorkshopOptions, keepsRuns: boolean) {
    this.#storage = storage;
    this.#options = options;
    this.#keepsRuns = keepsRuns;
  }

  /** A workshop whose files stay, in the folder `OUTPUT.stages`. */
  static beside(output: string, options: WorkshopOptions): Workshop {
    return new Workshop(dependenciesOf(options).openStorage(besideOutput(output)), options, true);
  }

  /**
   * A workshop whose files are removed by `close`.
   *
   * @param output of a run, whose files are reused if they exist, so that the inputs are the same.
   */
  static async temporary(options: WorkshopOptions, output?: string): Promise<Workshop> {
    const folder = await mkdtemp(join(tmpdir(), "sluice-dataset-"));
    const workshop = new Workshop(dependenciesOf(options).openStorage(folder), options, false);
    workshop.#temporary = folder;
    if (output !== undefined)
      workshop.#standing = dependenciesOf(options).openStorage(besideOutput(output));
    return workshop;
  }

  async close(): Promise<void> {
    if (this.#temporary) await rm(this.#temporary, { recursive: true, force: true });
  }

  /** The last segment of a pipeline, after everything before it was run. */
  async lastSegment({ source, steps }: Pipeline): Promise<Segment> {
    let segment = await this.#firstSegment(source);
    for (const step of steps) {
      segment = withStep(segment, step) ?? (await this.#behind(segment, step as Barrier));
    }
    return segment;
  }

  async #firstSegment(source: Source): Promise<Segment> {
    if (source.kind === "union") return this.#unionOf(source.parts);
    if (source.kind === "input") return segmentOf(source.input, source.isTyped);
    return segmentOf(await this.#inputOf(source), true);
  }

  /**
   * One input for several datasets: files of those without stages, and the results of the others.
   */
  async #unionOf(parts: readonly Pipeline[]): Promise<Segment> {
    const segments: Segment[] = [];
    for (const part of parts) segments.push(await this.lastSegment(part));
    const isTyped = segments.some(({ typedInput, stages }) => typedInput || stages.length > 0);
    const input: JsonObject[] = [];
    for (const segment of segments) {
      const { stages, limit, typedInput } = segment;
      const isFile = stages.length === 0 && limit === undefined && typedInput === isTyped;
      const own = isFile ? segment : await this.#behind(segment, { kind: "union" }, isTyped);
      input.push(...own.input);
    }
    return segmentOf(input, isTyped);
  }

  async #inputOf(source: Extract<Source, { kind: "rows" }>): Promise<Segment["input"]> {
    const name = fileNameOfRows(source.rows);
    const standing = await this.#standingInput(name);
    return [standing ?? (await storedLines(this.#storage, name, linesOfRows(source)))];
  }

  /** A file that a run left beside its output; undefined if there is none. */
  async #standingInput(name: string): Promise<JsonObject | undefined> {
    return this.#standing && (await storedInput(this.#standing, name).catch(() => undefined));
  }

  /**
   * A segment that reads the output of a barrier after an earlier segment.
   *
   * @param isTyped whether its rows are in the form of `toWire`.
   */
  async #behind(
    segment: Segment,
    step: Barrier,
    isTyped = segment.stages.length > 0 || segment.typedInput,
  ): Promise<Segment> {
    const number = ++this.#barriers;
    const isRun = isCarriedOut(segment, step);
    const job = jobOfSegment(segment, undefined, isRun && isTyped);
    const facts = await inputFacts(job, this.#options);
    const name = fileNameOf(`${number}-${step.kind}`, [job, step, facts]);
    const soundName = `${name}-sound`;
    // Remove it before its run: after a kill in between, an older file must not remain.
    if (this.#options.overwrite) {
      for (const each of [name, soundName]) await this.#storage.remove(`${each}.jsonl`);
    }
    const standing = (await this.#standingInput(name)) ?? (await this.#standingInput(soundName));
    if (standing) return segmentOf([standing], isTyped, segment.shards);
    const before: Before = { segment, step, isTyped, name: `${number}-run` };
    const input = await (isRun
      ? this.#stored(name, step, await this.#resultsOf(before))
      : this.#stored(name, step, this.#rowsOf(segment)).catch(async (thrown: unknown) => {
          // Most inputs are without fault. Rows at fault need a run, to be its dead letters.
          if (!this.#keepsRuns || asSluiceError(thrown).scope !== "row") throw thrown;
          return this.#stored(soundName, step, await this.#resultsOf(before));
        }));
    return segmentOf([input], isTyped, segment.shards);
  }

  /** The file of what a barrier makes of lines. */
  async #stored(name: string, step: Barrier, lines: Lines): Promise<JsonObject> {
    const directory = await mkdtemp(join(tmpdir(), "sluice-barrier-"));
    const { signal } = this.#options;
    try {
      const made = throughBarrier(lines, step, directory);
      return await storedLines(this.#storage, name, made, signal);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  #rowsOf(segment: Segment): Lines {
    const { resources, ...options } = this.#options;
    const job = { ...options.job, ...jobOfSegment(segment, resources) };
    return () => inputLines(job, options);
  }

  /** The results of a segment that is carried out. */
  async #resultsOf({ segment, step, isTyped, name }: Before): Promise<Lines> {
    const { resources, ...options } = this.#options;
    const { functions, stages } = segment;
    const job = { ...options.job, ...jobOfSegment(segment, resources, isTyped) };
    if (this.#keepsRuns) {
      const onEvent = this.tally.hearing(options.onEvent);
      const output = `${this.#storage.location}/${name}`;
      const result = await runWith({ ...job, output }, { ...options, onEvent }, { functions });
      if (result.error) {
        this.stoppedRun = result;
        throw result.error;
      }
      this.tally.endRun(stages.length);
      this.#note(result, step.kind);
      const { signal } = options;
      return () => resultLines(result.summary.output, dependenciesOf(options), { signal });
    }
    if (this.#standing) assertAsksNothing(segment, step);
    const onEnd = (states: readonly StageState[]) => this.tally.note("", states);
    const rows = streamJob(job, { ...options, onEnd }, functions);
    const stored = await storedLines(this.#storage, `${this.#barriers}-rows`, textsOf(rows));
    this.tally.endRun(stages.length);
    const input = [stored] as unknown as InputJob["input"];
    return () => inputLines({ ...job, input }, options);
  }

  #note(result: RunResult, before: string): void {
    this.interimRuns.push(result);
    const { rows, output } = result.summary;
    if (rows.failed === 0) return;
    const count = rows.failed === 1 ? "1 row" : `${rows.failed} rows`;
    this.#options.onEvent?.({
      type: "notice",
      message: `${count} failed before ${before}, and will not be among the results: ${output}`,
    });
  }

  /** An error about a row without the place in a file that `close` removes. */
  placed(error: unknown): unknown {
    if (!(error instanceof SluiceError) || this.#temporary === undefined) return error;
    const { code, hint, message, place } = error;
    const { file, line } = place;
    if (!file?.startsWith(`${this.#temporary}/`)) return error;
    const barrier = /^\d+-(shuffle|sample|limit|union)/.exec(basename(file))?.[1];
    const where = barrier === undefined ? `row ${line}` : `row ${line} behind ${barrier}`;
    return wordedError(code, message.replace(`${file}:${line}`, where), { hint, cause: error });
  }
}

/** A plan sends no request. */
function assertAsksNothing({ stages }: Segment, { kind }: Barrier): void {
  if (stages.every((stage) => stage.kind !== "generate")) return;
  const detail = `the steps after ${kind} can be planned when the models before it have answered`;
  throw new SluiceError("UNSUPPORTED", detail, {
    hint: "call run(), which answers these rows first and keeps them, or plan the steps before it",
  });
}

async function* textsOf(rows: ReturnType<typeof streamJob>): AsyncGenerator<string> {
  for await (const row of rows) yield row.text();
}

/** Whether rows pass through a pipeline before a step: they then have the form of `toWire`. */
function isCarriedOut({ stages }: Segment, { kind }: Barrier): boolean {
  return stages.length > 0 || kind === "union";
}

function besideOutput(output: string): string {
  return `${output.replace(/\/+$/, "")}.stages`;
}

function dependenciesOf(options: WorkshopOptions): RunDependencies {
  const surroundings = surroundingsOf(options);
  return runDependencies(surroundings, silentLogger, options.job?.store);
}
