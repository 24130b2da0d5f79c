import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { results } from "../api/inspect.ts";
import { type RunOptions, runWith, surroundingsOf } from "../api/run.ts";
import { runDependencies } from "../api/run-dependencies.ts";
import { inputFacts, inputLines, streamJob } from "../api/stream.ts";
import type { Storage } from "../data/storage/storage.ts";
import type { JsonObject } from "../foundation/json.ts";
import { silentLogger } from "../foundation/logger.ts";
import { fileNameOf, type Lines, storedLines, throughBarrier } from "./barrier.ts";
import {
  type Barrier,
  jobOfSegment,
  linesOfRows,
  type Segment,
  segmentOf,
  withStep,
} from "./segment.ts";
import type { Source, Step } from "./step.ts";

/** A source and the steps behind it. */
export interface Pipeline {
  source: Source;
  steps: readonly Step[];
}

/** How interim rows are made, and what a run of stages before a barrier may take. */
export interface WorkshopOptions extends RunOptions {
  /** `model.resources` of a job. */
  resources?: JsonObject;
}

/** Carries out what has to be done before the last job of a pipeline can be planned. */
export class Workshop {
  readonly #storage: Storage;
  readonly #options: WorkshopOptions;
  /** Stages before a barrier are a run beside the output, which can be gone on with. */
  readonly #keepsRuns: boolean;
  #temporary: string | undefined;
  #barriers = 0;

  private constructor(storage: Storage, options: WorkshopOptions, keepsRuns: boolean) {
    this.#storage = storage;
    this.#options = options;
    this.#keepsRuns = keepsRuns;
  }

  /** A workshop whose files stay, in the folder `OUTPUT.stages`. */
  static beside(output: string, options: WorkshopOptions): Workshop {
    const folder = `${output.replace(/\/+$/, "")}.stages`;
    return new Workshop(storageAt(folder, options), options, true);
  }

  /** A workshop whose files are gone once `close` is called. */
  static async temporary(options: WorkshopOptions): Promise<Workshop> {
    const folder = await mkdtemp(join(tmpdir(), "sluice-dataset-"));
    const workshop = new Workshop(storageAt(folder, options), options, false);
    workshop.#temporary = folder;
    return workshop;
  }

  async close(): Promise<void> {
    if (this.#temporary) await rm(this.#temporary, { recursive: true, force: true });
  }

  /** The last segment of a pipeline, with all before it carried out. */
  async lastSegment({ source, steps }: Pipeline): Promise<Segment> {
    let segment = segmentOf(await this.#inputOf(source));
    for (const step of steps) {
      segment = withStep(segment, step) ?? (await this.#behind(segment, step as Barrier));
    }
    return segment;
  }

  async #inputOf(source: Source): Promise<Segment["input"]> {
    if (source.kind === "input") return source.input;
    const name = fileNameOf("rows", source.rows);
    return [{ path: await storedLines(this.#storage, name, linesOfRows(source)), format: "jsonl" }];
  }

  /** A segment that reads what a barrier made of an earlier one. */
  async #behind(segment: Segment, step: Barrier): Promise<Segment> {
    const number = ++this.#barriers;
    const job = jobOfSegment(segment, undefined);
    const facts = await inputFacts(job, this.#options);
    const name = fileNameOf(`${number}-${step.kind}`, [job, step, facts]);
    const lines = await this.#linesOf(segment, `${this.#storage.location}/${number}-run`);
    const directory = await mkdtemp(join(tmpdir(), "sluice-barrier-"));
    try {
      const made = throughBarrier(lines, step, directory);
      const path = await storedLines(this.#storage, name, made);
      return segmentOf([{ path, format: "jsonl" }]);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  async #linesOf(segment: Segment, output: string): Promise<Lines> {
    const job = jobOfSegment(segment, this.#options.resources);
    if (segment.stages.length === 0) return () => inputLines(job, this.#options);
    if (this.#keepsRuns) {
      const { error } = await runWith({ ...job, output }, this.#options, segment.functions);
      if (error) throw error;
      return () => asLines(results(output));
    }
    const rows = streamJob(job, this.#options, segment.functions);
    const path = await storedLines(this.#storage, `${this.#barriers}-rows`, asLines(rows));
    return () => inputLines({ ...job, input: [{ path, format: "jsonl" }] }, this.#options);
  }
}

async function* asLines(rows: AsyncIterable<object>): AsyncGenerator<string> {
  for await (const row of rows) yield JSON.stringify(row);
}

function storageAt(folder: string, options: WorkshopOptions): Storage {
  return runDependencies(surroundingsOf(options), silentLogger).openStorage(folder);
}
