import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { resultLines } from "../api/inspect.ts";
import { type RunOptions, runWith, surroundingsOf } from "../api/run.ts";
import { runDependencies } from "../api/run-dependencies.ts";
import { inputFacts, inputLines, streamJob } from "../api/stream.ts";
import type { Storage } from "../data/storage/storage.ts";
import { SluiceError, wordedError } from "../foundation/errors.ts";
import type { JsonObject } from "../foundation/json.ts";
import { silentLogger } from "../foundation/logger.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import type { JobInput } from "../run/job/schema.ts";
import type { RunResult } from "../run/run-job.ts";
import { fileNameOf, type Lines, storedLines, throughBarrier } from "./barrier.ts";
import {
  type Barrier,
  jobOfSegment,
  linesOfRows,
  type Segment,
  segmentOf,
  withStep,
} from "./segment.ts";
import type { Pipeline, Source } from "./step.ts";

/** Job keys that also apply to the runs of stages before a barrier. */
export type InterimJob = Omit<Partial<JobInput>, "input" | "model" | "output">;

/** How interim rows are made, and what the runs of stages before a barrier may use. */
export interface WorkshopOptions extends RunOptions {
  /** `model.resources` of a job. */
  resources?: JsonObject;
  job?: InterimJob;
}

/** Runs everything that has to be done before the last job of a pipeline can be planned. */
export class Workshop {
  readonly #storage: Storage;
  readonly #options: WorkshopOptions;
  /** True if stages before a barrier are kept as runs beside the output, which can be resumed. */
  readonly #keepsRuns: boolean;
  readonly interimRuns: RunResult[] = [];
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
      input.push(...(isFile ? segment : await this.#behind(segment, { kind: "union" })).input);
    }
    return segmentOf(input, isTyped);
  }

  async #inputOf(source: Extract<Source, { kind: "rows" }>): Promise<Segment["input"]> {
    const name = fileNameOf("rows", source.rows);
    const standing = await this.#standingFile(name);
    const path = standing ?? (await storedLines(this.#storage, name, linesOfRows(source)));
    return [{ path, format: "jsonl" }];
  }

  /** The address of a file that a run left beside its output; undefined if there is none. */
  async #standingFile(name: string): Promise<string | undefined> {
    const path = `${name}.jsonl`;
    const found = await this.#standing?.stat(path).catch(() => undefined);
    return found && `${this.#standing!.location}/${path}`;
  }

  /** A segment that reads the output of a barrier after an earlier segment. */
  async #behind(segment: Segment, step: Barrier): Promise<Segment> {
    const number = ++this.#barriers;
    const isTyped = isCarriedOut(segment, step) || segment.typedInput;
    const job = jobOfSegment(segment, undefined, isCarriedOut(segment, step));
    const facts = await inputFacts(job, this.#options);
    const name = fileNameOf(`${number}-${step.kind}`, [job, step, facts]);
    // Remove it before its run: after a kill in between, an older file must not remain.
    if (this.#options.overwrite) await this.#storage.remove(`${name}.jsonl`);
    const standing = await this.#standingFile(name);
    if (standing) return segmentOf([{ path: standing, format: "jsonl" }], isTyped, segment.shards);
    const lines = await this.#linesOf(segment, step, `${number}-run`);
    const directory = await mkdtemp(join(tmpdir(), "sluice-barrier-"));
    try {
      const made = throughBarrier(lines, step, directory);
      const path = await storedLines(this.#storage, name, made);
      return segmentOf([{ path, format: "jsonl" }], isTyped, segment.shards);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  async #linesOf(segment: Segment, step: Barrier, name: string): Promise<Lines> {
    const { resources, ...options } = this.#options;
    const hasStages = isCarriedOut(segment, step);
    const job = { ...options.job, ...jobOfSegment(segment, resources, hasStages) };
    if (!hasStages) return () => inputLines(job, options);
    if (this.#keepsRuns) {
      const output = `${this.#storage.location}/${name}`;
      const result = await runWith({ ...job, output }, options, {
        functions: segment.functions,
      });
      if (result.error) throw result.error;
      this.#note(result, step.kind);
      return () => resultLines(output, dependenciesOf(options));
    }
    const rows = streamJob(job, options, segment.functions);
    const path = await storedLines(this.#storage, `${this.#barriers}-rows`, textsOf(rows));
    return () => inputLines({ ...job, input: [{ path, format: "jsonl" }] }, options);
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
