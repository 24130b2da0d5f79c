import type { StageState } from "../engines/engine.ts";
import { assertOptions } from "../foundation/call-options.ts";
import { toColumns } from "../foundation/column-batch.ts";
import { SluiceError } from "../foundation/errors.ts";
import type { ExactRow } from "../foundation/exact-json.ts";
import type { JobInput } from "../run/job/schema.ts";
import type { RunPreview } from "../run/preview/preview.ts";
import {
  type DatasetColumn,
  type DatasetRun,
  jobOfDataset,
  materializeDataset,
  planDataset,
  type ReadDatasetOptions,
  type RunDatasetOptions,
  rowsOfDataset,
  runDataset,
  schemaOfDataset,
} from "./execution.ts";
import type { Pipe } from "./generate.ts";
import { printRows } from "./print-rows.ts";
import type { Pipeline, Source, Step } from "./step.ts";
import type { ModuleReference } from "./step-code.ts";
import { batchStage, optionsPage, stepCodeOf } from "./step-code.ts";
import type {
  Awaitable,
  BatchClass,
  BatchCode,
  BatchesForm,
  BatchFormat,
  BatchOptions,
  CodeOptions,
  ColumnOf,
  Columns,
  FreeNames,
  FunctionOptions,
  JsonObject,
  Renamed,
  RowLike,
  UntypedRow,
  WithColumn,
} from "./types.ts";

type AnyFunction = (...parameters: never[]) => unknown;
type Code = AnyFunction | BatchClass<never[], never, unknown> | ModuleReference;

/**
 * Rows, and the steps to apply to them. Each call returns a new dataset and runs nothing yet. The
 * final calls (`show`, `take`, `run`, `writeJsonl`, …, and `for await`) run the steps. `Row` is the
 * type of a row after the last step.
 *
 * A row has one outcome: it is answered with one or more results, it is filtered out, or it fails.
 *
 * @example
 * const texts = dataset.from([{ text: "one" }, { text: "" }]);
 * const said = texts.filter(({ text }) => text !== "");
 * await said.withColumn("size", ({ text }) => text.length).show();
 */
export class Dataset<Row extends object = ExactRow> implements AsyncIterable<Row> {
  readonly #source: Source;
  readonly #steps: readonly Step[];

  constructor(source: Source, steps: readonly Step[] = []) {
    this.#source = source;
    this.#steps = steps;
  }

  /**
   * Maps each row to another row.
   *
   * @param code a function, or a module that exports one. A module runs in processes of its own,
   *   and its result type is unknown here: state it as `map<Out>(module)`.
   */
  map<Out extends object = UntypedRow>(code: ModuleReference): Dataset<Out>;
  map<Out extends RowLike>(
    code: (row: Row) => Awaitable<Out>,
    options?: FunctionOptions,
  ): Dataset<Out>;
  map<Out extends object>(code: Code, options?: FunctionOptions): Dataset<Out> {
    return this.#stage({ kind: "map" }, code, true, options);
  }

  /** Keeps the rows for which the function returns a true value. */
  filter(code: ModuleReference): Dataset<Row>;
  filter<Kept extends Row>(
    code: (row: Row) => row is Kept,
    options?: FunctionOptions,
  ): Dataset<Kept>;
  filter(code: (row: Row) => Awaitable<unknown>, options?: FunctionOptions): Dataset<Row>;
  filter<Kept extends Row>(code: Code, options?: FunctionOptions): Dataset<Kept> {
    return this.#stage({ kind: "filter" }, code, false, options);
  }

  /** Maps each row to a list of rows. An empty list filters the row out. */
  flatMap<Out extends object = UntypedRow>(code: ModuleReference): Dataset<Out>;
  flatMap<Out extends RowLike>(
    code: (row: Row) => Awaitable<Iterable<Out>>,
    options?: FunctionOptions,
  ): Dataset<Out>;
  flatMap<Out extends object>(code: Code, options?: FunctionOptions): Dataset<Out> {
    return this.#stage({ kind: "flatMap" }, code, false, options);
  }

  /** Adds a column or replaces it. */
  withColumn<Name extends string, Value = unknown>(
    name: Name,
    code: ModuleReference,
  ): Dataset<WithColumn<Row, Name, Value>>;
  withColumn<Name extends string, Value>(
    name: Name,
    code: (row: Row) => Awaitable<Value>,
    options?: FunctionOptions,
  ): Dataset<WithColumn<Row, Name, Value>>;
  withColumn<Name extends string, Value>(
    name: Name,
    code: Code,
    options?: FunctionOptions,
  ): Dataset<WithColumn<Row, Name, Value>> {
    return this.#stage({ kind: "map", column: name }, code, true, options);
  }

  /** Keeps these columns, in this order. A row without any of them fails. */
  select<Name extends keyof Row & string>(
    first: Name,
    ...others: Name[]
  ): Dataset<Pick<Row, Name>> {
    return this.#stage({ kind: "select", columns: [first, ...others] }, undefined, true);
  }

  /**
   * Renames columns: `rename({ old: "new" })`. A row fails if two of its columns would have the
   * same name.
   */
  rename<const Names extends { readonly [Name in keyof Row]?: string }>(
    names: Names & FreeNames<Row, Names>,
  ): Dataset<Renamed<Row, Names> & object> {
    return this.#stage({ kind: "rename", columns: { ...names } as JsonObject }, undefined, true);
  }

  /**
   * Passes batches of rows to a function or to an instance of a class. If the code is in a module,
   * each replica runs in a process of its own.
   *
   * @throws SluiceError `OPTION_UNKNOWN`, `USAGE`.
   * @example
   * dataset.jsonl("rows.jsonl").mapBatches(new URL("./embed.ts", import.meta.url), {
   *   batchSize: 64,
   *   concurrency: 2,
   * });
   */
  mapBatches<Out extends object = UntypedRow>(
    code: ModuleReference,
    options?: BatchOptions,
  ): Dataset<Out>;
  mapBatches<
    Out extends object,
    Arguments extends readonly unknown[] = [],
    Format extends BatchFormat = "rows",
  >(
    code: BatchCode<Row, Out, Arguments, Format>,
    ...options: CodeOptions<Arguments, Format>
  ): Dataset<Out>;
  mapBatches<Out extends object>(code: Code, options: BatchOptions = {}): Dataset<Out> {
    return this.#stage(batchStage(options), code, false, options);
  }

  /** Passes rows through a separately made stage, such as `generate({…})`. */
  pipe<Name extends string, Value, Needed extends ColumnOf<Row> = never>(
    stage: Pipe<Name, Value, Needed>,
  ): Dataset<WithColumn<Row, Name, Value>> {
    return this.#with(stage.step);
  }

  /** Keeps the first rows; 0 keeps none. */
  limit(rows: number): Dataset<Row> {
    return this.#with({ kind: "limit", rows: whole("limit", rows, 0) });
  }

  /**
   * The rows of this dataset, then those of the others, whatever their sources. Datasets with
   * stages run first, as before a `shuffle`.
   *
   * @example
   * const all = dataset.jsonl("new.jsonl").union(dataset.parquet("old/*.parquet"));
   */
  union<Others extends object[]>(
    ...others: { [At in keyof Others]: Dataset<Others[At]> }
  ): Dataset<Row | Others[number]> {
    const parts = [this, ...others].map((each) => (each as Dataset<object>).#pipeline);
    return new Dataset<Row | Others[number]>({ kind: "union", parts });
  }

  /**
   * Keeps a random sample of the rows.
   *
   * @param size number of rows; below 1, the share of rows.
   */
  sample(size: number, options: SeedOptions = {}): Dataset<Row> {
    assertOptions("sample", options, { seed: true }, optionsPage);
    const { seed = 0 } = options;
    whole("seed", seed, 0);
    if (size > 0 && size < 1) return this.#with({ kind: "sample", share: size, seed });
    return this.#with({ kind: "sample", rows: whole("sample", size, 1), seed });
  }

  /** Puts the rows into a random order. Rows that do not fit into memory are kept on disk. */
  shuffle(options: SeedOptions = {}): Dataset<Row> {
    assertOptions("shuffle", options, { seed: true }, optionsPage);
    const { seed = 0 } = options;
    return this.#with({ kind: "shuffle", seed: whole("seed", seed, 0) });
  }

  /**
   * Cuts the rows of a run into this many tasks, whose sizes differ by a row at most. If there are
   * fewer rows, each row is a task. If a stage has a batch size, the sizes are multiples of it:
   * they differ by a batch at most, and there may be fewer tasks.
   */
  repartition(shards: number): Dataset<Row> {
    return this.#with({ kind: "repartition", shards: whole("repartition", shards, 1) });
  }

  /** Prints the first rows as JSON, one row a line. */
  async show(rows = 20, options: ReadDatasetOptions = {}): Promise<void> {
    printRows(await this.take(rows, options));
  }

  /**
   * The first rows.
   *
   * @throws SluiceError the error of a row that failed before them.
   */
  async take(rows: number, options: ReadDatasetOptions = {}): Promise<Row[]> {
    const taken: Row[] = [];
    if (whole("take", rows, 0) === 0) return taken;
    for await (const row of rowsOfDataset(this.#pipeline, options, rows)) {
      taken.push(row as Row);
      if (taken.length === rows) break;
    }
    return taken;
  }

  /**
   * All rows as an array.
   *
   * @throws SluiceError the error of the first row that fails.
   */
  takeAll(options: ReadDatasetOptions = {}): Promise<Row[]> {
    return Array.fromAsync(rowsOfDataset(this.#pipeline, options) as AsyncIterable<Row>);
  }

  /**
   * The result rows in arrays, or with `batchFormat: "columns"` as lists by column.
   *
   * @throws SluiceError the error of the first row that fails.
   * @example
   * for await (const batch of dataset.jsonl("rows.jsonl").iterBatches({ batchSize: 32 })) {
   *   console.log(batch.length);
   * }
   */
  iterBatches(options?: IterBatchesOptions & { batchFormat?: "rows" }): AsyncGenerator<Row[]>;
  iterBatches(
    options: IterBatchesOptions & { batchFormat: "columns" },
  ): AsyncGenerator<Columns<Row>>;
  async *iterBatches({
    batchSize = 256,
    batchFormat = "rows",
    dropLast = false,
    ...options
  }: IterBatchesOptions = {}): AsyncGenerator<Row[] | Columns<Row>> {
    whole("batchSize", batchSize, 1);
    const formed = (batch: Row[]) =>
      batchFormat === "rows" ? batch : (toColumns(batch as JsonObject[]) as Columns<Row>);
    let batch: Row[] = [];
    for await (const row of rowsOfDataset(this.#pipeline, options)) {
      batch.push(row as Row);
      if (batch.length < batchSize) continue;
      yield formed(batch);
      batch = [];
    }
    if (batch.length > 0 && !dropLast) yield formed(batch);
  }

  /**
   * Runs the dataset once and returns a dataset of the results. That one reads the results whenever
   * it is used, in this program and in later ones. Values keep their types.
   *
   * @param output directory of the run, or a file `x.jsonl`.
   * @throws SluiceError `UNSUPPORTED` for a file of another form; the error that stopped the run;
   *   `ROW_FAILED` if more rows failed than `job: { maxFailedRows }` allows.
   * @example
   * const rows = dataset.jsonl("rows.jsonl").filter(({ text }) => text);
   * const clean = await rows.materialize("clean");
   * console.log(await clean.count(), await clean.take(3));
   */
  async materialize(output: string, options: WriteOptions = {}): Promise<Dataset<Row>> {
    return new Dataset<Row>(await materializeDataset(this.#pipeline, { ...options, output }));
  }

  /** Number of result rows. */
  async count(options: ReadDatasetOptions = {}): Promise<number> {
    let count = 0;
    for await (const _ of rowsOfDataset(this.#pipeline, options)) count++;
    return count;
  }

  /**
   * The columns of the result rows. Files with a schema (Parquet, Arrow) name them, if no stage
   * changes rows. Otherwise they are inferred from the first 20 rows, and `inferredFromRows` says
   * so.
   */
  schema(options: ReadDatasetOptions = {}): Promise<DatasetColumn[]> {
    return schemaOfDataset(this.#pipeline, options);
  }

  /**
   * Runs all rows through the stages and counts rows, calls and seconds of each. Results are
   * dropped.
   */
  async stats(options: ReadDatasetOptions = {}): Promise<readonly StageState[]> {
    let found: readonly StageState[] = [];
    const rows = rowsOfDataset(this.#pipeline, options, undefined, (stages) => {
      found = stages;
    });
    for await (const _ of rows);
    return found;
  }

  /**
   * The result rows in order. Rows are computed ahead of the loop, but not beyond its end.
   *
   * @throws SluiceError the error of the first row that fails.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Row> {
    for await (const row of rowsOfDataset(this.#pipeline, {})) yield row as Row;
  }

  /**
   * Runs the dataset as `sluice run` would, with plan, journal, commits and manifest. Called again,
   * it resumes where it stopped.
   *
   * @throws SluiceError for anything that prevents the start. What stops the run later is in the
   *   result.
   * @example
   * const first = dataset.jsonl("rows.jsonl").limit(100);
   * const { summary, stages } = await first.run({ output: "out" });
   */
  run(options: RunDatasetOptions): Promise<DatasetRun> {
    return runDataset(this.#pipeline, options);
  }

  /** Runs it with results as JSON lines: in one file `x.jsonl`, or as parts in a directory. */
  writeJsonl(path: string, options: WriteOptions = {}): Promise<DatasetRun> {
    return this.#write(path, "jsonl", options);
  }

  /** Runs it with results as CSV, in a file or directory. */
  writeCsv(path: string, options: WriteOptions = {}): Promise<DatasetRun> {
    return this.#write(path, "csv", options);
  }

  /** Runs it with results as JSON: a list of rows in each file. */
  writeJson(path: string, options: WriteOptions = {}): Promise<DatasetRun> {
    return this.#write(path, "json", options);
  }

  /** Runs it with results as Parquet, in a file or directory. */
  writeParquet(path: string, options: WriteOptions = {}): Promise<DatasetRun> {
    return this.#write(path, "parquet", options);
  }

  /**
   * The dataset as a job, for `run`, `plan` and, as JSON, for `sluice run -c` on any machine.
   *
   * @throws SluiceError `UNSUPPORTED` if a stage is a function of this program, if its rows are
   *   values of this program, or if a step has to run before the job can be planned.
   */
  job(options: Pick<RunDatasetOptions, "output" | "job" | "resources">): JobInput {
    return jobOfDataset(this.#pipeline, options);
  }

  /**
   * What a run would do, as `plan` shows it. Writes nothing and sends no request. Code before a
   * `shuffle`, a `sample` and their like runs for it, unless the output has what it made.
   *
   * @throws SluiceError `UNSUPPORTED` if a model must answer first, before such a step.
   */
  plan(options: RunDatasetOptions): Promise<RunPreview> {
    return planDataset(this.#pipeline, options);
  }

  get #pipeline(): Pipeline {
    return { source: this.#source, steps: this.#steps };
  }

  #write(path: string, format: OutputFormat, options: WriteOptions): Promise<DatasetRun> {
    return this.run({ ...options, output: { path, format } });
  }

  #with<Out extends object>(step: Step): Dataset<Out> {
    return new Dataset<Out>(this.#source, [...this.#steps, step]);
  }

  #stage<Out extends object>(
    stage: JsonObject,
    code: Code | undefined,
    isOneToOne: boolean,
    options: FunctionOptions = {},
  ): Dataset<Out> {
    const { kind } = stage;
    // Those of `mapBatches` are read before.
    if (kind !== "mapBatches") assertOptions(String(kind), options, { closure: true }, optionsPage);
    const hasCode = kind !== "select" && kind !== "rename";
    const given = hasCode ? { code: stepCodeOf(String(kind), code, options.closure) } : {};
    return this.#with({ kind: "stage", stage, ...given, isOneToOne });
  }
}

/** Options of `iterBatches`. */
export interface IterBatchesOptions extends BatchesForm, ReadDatasetOptions {}

type SeedOptions = { seed?: number };
type OutputFormat = "jsonl" | "csv" | "json" | "parquet";
type WriteOptions = Omit<RunDatasetOptions, "output">;

function whole(call: string, value: number, least: number): number {
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new SluiceError("USAGE", `${call}: ${value} is not a whole number of ${least} or more`, {
    hint: `give ${call} a whole number`,
  });
}
