import type { StageState } from "../engines/engine.ts";
import { toColumns } from "../foundation/column-batch.ts";
import { SluiceError } from "../foundation/errors.ts";
import type { ExactRow } from "../foundation/exact-json.ts";
import type { JobInput } from "../run/job/schema.ts";
import type { RunPreview } from "../run/preview/preview.ts";
import { batchStage } from "./batch-stage.ts";
import {
  countRows,
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
  statsOfDataset,
} from "./execution.ts";
import type { Pipe } from "./generate.ts";
import type { ModuleReference } from "./module-reference.ts";
import { printRows } from "./print-rows.ts";
import type { Pipeline, Source, Step } from "./step.ts";
import { stepCodeOf } from "./step-code.ts";
import type {
  Awaitable,
  BatchClass,
  BatchCode,
  IterBatchesOptions as BatchesForm,
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
 * Rows, and what is to become of them. Each call gives a new dataset and does nothing yet; the
 * calls at the end (`show`, `take`, `run`, `writeJsonl`, …, and `for await`) carry it out. `Row` is
 * the type of a row as it leaves the last stage.
 *
 * A row has one outcome: it is answered, with one result or several, it is filtered, or it fails.
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
   * Each row becomes another.
   *
   * @param code a function, or the module that has one; that runs in processes of its own. What a
   *   module makes of a row is not known here: say it, as `map<Out>(module)`.
   */
  map<Out extends object = UntypedRow>(code: ModuleReference): Dataset<Out>;
  map<Out extends RowLike>(
    code: (row: Row) => Awaitable<Out>,
    options?: FunctionOptions,
  ): Dataset<Out>;
  map<Out extends object>(code: Code, options?: FunctionOptions): Dataset<Out> {
    return this.#stage({ kind: "map" }, code, true, options);
  }

  /** Keeps the rows of which the function says something true. */
  filter(code: ModuleReference): Dataset<Row>;
  filter<Kept extends Row>(
    code: (row: Row) => row is Kept,
    options?: FunctionOptions,
  ): Dataset<Kept>;
  filter(code: (row: Row) => Awaitable<unknown>, options?: FunctionOptions): Dataset<Row>;
  filter<Kept extends Row>(code: Code, options?: FunctionOptions): Dataset<Kept> {
    return this.#stage({ kind: "filter" }, code, false, options);
  }

  /** Each row becomes the rows of a list; of an empty one it is filtered. */
  flatMap<Out extends object = UntypedRow>(code: ModuleReference): Dataset<Out>;
  flatMap<Out extends RowLike>(
    code: (row: Row) => Awaitable<Iterable<Out>>,
    options?: FunctionOptions,
  ): Dataset<Out>;
  flatMap<Out extends object>(code: Code, options?: FunctionOptions): Dataset<Out> {
    return this.#stage({ kind: "flatMap" }, code, false, options);
  }

  /** Adds a column, or replaces it. */
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

  /** Keeps these columns, in this order. A row that has none of them fails. */
  select<Name extends keyof Row & string>(
    first: Name,
    ...others: Name[]
  ): Dataset<Pick<Row, Name>> {
    return this.#stage({ kind: "select", columns: [first, ...others] }, undefined, true);
  }

  /**
   * Gives columns other names: `rename({ old: "new" })`. A row in which two columns would have one
   * name fails.
   */
  rename<const Names extends { readonly [Name in keyof Row]?: string }>(
    names: Names & FreeNames<Row, Names>,
  ): Dataset<Renamed<Row, Names> & object> {
    return this.#stage({ kind: "rename", columns: { ...names } as JsonObject }, undefined, true);
  }

  /**
   * Hands over batches of rows to a function, to an instance of a class, or to what a module has of
   * either: in processes of their own, one for each replica.
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

  /** Passes rows through a stage that was made elsewhere, such as `generate({…})`. */
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
   * The rows of this dataset, and then those of others, whatever they are read from. Datasets with
   * stages are carried out first, as what is before a `shuffle` is.
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
   * Keeps some rows, by chance.
   *
   * @param size how many; below 1, their share.
   */
  sample(size: number, { seed = 0 }: { seed?: number } = {}): Dataset<Row> {
    whole("seed", seed, 0);
    if (size > 0 && size < 1) return this.#with({ kind: "sample", share: size, seed });
    return this.#with({ kind: "sample", rows: whole("sample", size, 1), seed });
  }

  /** Puts rows into an order by chance, however many there are: beyond memory on disk. */
  shuffle({ seed = 0 }: { seed?: number } = {}): Dataset<Row> {
    return this.#with({ kind: "shuffle", seed: whole("seed", seed, 0) });
  }

  /**
   * Cuts the rows of a run into so many shards, whose sizes are a row apart at most; of fewer rows
   * each is a shard. Where a stage wants batches of a size, shards are multiples of it: they are a
   * batch apart, and fewer where there are not so many batches.
   */
  repartition(shards: number): Dataset<Row> {
    return this.#with({ kind: "repartition", shards: whole("repartition", shards, 1) });
  }

  /** Prints the first rows as JSON, a line each. */
  async show(rows = 20, options: ReadDatasetOptions = {}): Promise<void> {
    printRows(await this.take(rows, options));
  }

  /**
   * The first rows.
   *
   * @throws SluiceError the failure of a row that comes before them.
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
   * All rows, as an array.
   *
   * @throws SluiceError the failure of the first row that fails.
   */
  takeAll(options: ReadDatasetOptions = {}): Promise<Row[]> {
    return Array.fromAsync(rowsOfDataset(this.#pipeline, options) as AsyncIterable<Row>);
  }

  /**
   * Rows as they come out, in arrays or, with `batchFormat: "columns"`, as lists by column.
   *
   * @throws SluiceError the failure of the first row that fails.
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
   * Carries it out as a run, once: the dataset that comes back reads what came out, as often as it
   * is called, in this program and in later calls of it. Values keep their types.
   *
   * @param output a directory, which holds the run.
   * @throws SluiceError what stopped the run, or `ROW_FAILED` where more rows failed than
   *   `job: { maxFailedRows }` allows.
   * @example
   * const rows = dataset.jsonl("rows.jsonl").filter(({ text }) => text);
   * const clean = await rows.materialize("clean");
   * console.log(await clean.count(), await clean.take(3));
   */
  async materialize(output: string, options: WriteOptions = {}): Promise<Dataset<Row>> {
    return new Dataset<Row>(await materializeDataset(this.#pipeline, { ...options, output }));
  }

  /** How many rows there are at the end. */
  count(options: ReadDatasetOptions = {}): Promise<number> {
    return countRows(this.#pipeline, options);
  }

  /**
   * The columns of rows at the end: those of the files where these say them (Parquet, Arrow) and no
   * stage changes rows, else inferred from the first 20 rows, as `inferredFromRows` says.
   */
  schema(options: ReadDatasetOptions = {}): Promise<DatasetColumn[]> {
    return schemaOfDataset(this.#pipeline, options);
  }

  /** What each stage does when all rows pass through: rows, calls, seconds. Results are dropped. */
  stats(options: ReadDatasetOptions = {}): Promise<readonly StageState[]> {
    return statsOfDataset(this.#pipeline, options);
  }

  /**
   * Rows as they come out, in order; asked ahead of the loop, and no further than it goes.
   *
   * @throws SluiceError the failure of the first row that fails.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Row> {
    for await (const row of rowsOfDataset(this.#pipeline, {})) yield row as Row;
  }

  /**
   * Carries it out as a run, which goes on where it stopped when this is called again: with plan,
   * journal, commits and manifest, as `sluice run` does.
   *
   * @throws SluiceError for what prevents a start; what stops it later is in the result.
   * @example
   * const first = dataset.jsonl("rows.jsonl").limit(100);
   * const { summary, stages } = await first.run({ output: "out" });
   */
  run(options: RunDatasetOptions): Promise<DatasetRun> {
    return runDataset(this.#pipeline, options);
  }

  /** The same, with results as JSON lines: in one file `x.jsonl`, or as parts in a directory. */
  writeJsonl(path: string, options: WriteOptions = {}): Promise<DatasetRun> {
    return this.#write(path, "jsonl", options);
  }

  /** The same, with results as CSV. */
  writeCsv(path: string, options: WriteOptions = {}): Promise<DatasetRun> {
    return this.#write(path, "csv", options);
  }

  /** The same, with results as JSON: a list of rows in each file. */
  writeJson(path: string, options: WriteOptions = {}): Promise<DatasetRun> {
    return this.#write(path, "json", options);
  }

  /** The same, with results as Parquet. */
  writeParquet(path: string, options: WriteOptions = {}): Promise<DatasetRun> {
    return this.#write(path, "parquet", options);
  }

  /**
   * The job that this is, for `run`, `plan` and, as JSON, for `sluice run -c`: any machine can have
   * it.
   *
   * @throws SluiceError `UNSUPPORTED` where a stage is a function of this program, rows come from
   *   it, or a step has to be carried out before a run can be planned.
   */
  job(options: Pick<RunDatasetOptions, "output" | "job" | "resources">): JobInput {
    return jobOfDataset(this.#pipeline, options);
  }

  /** What a run would do, as `plan` says it; writes nothing, and asks nothing. */
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
    { closure }: FunctionOptions = {},
  ): Dataset<Out> {
    const { kind } = stage;
    const hasCode = kind !== "select" && kind !== "rename";
    const given = hasCode ? { code: stepCodeOf(String(kind), code, closure) } : {};
    return this.#with({ kind: "stage", stage, ...given, isOneToOne });
  }
}

/** How rows are looped over in batches. */
export interface IterBatchesOptions extends BatchesForm, ReadDatasetOptions {}

type OutputFormat = "jsonl" | "csv" | "json" | "parquet";
type WriteOptions = Omit<RunDatasetOptions, "output">;

function whole(call: string, value: number, least: number): number {
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new SluiceError("USAGE", `${call}: ${value} is not a whole number of ${least} or more`, {
    hint: `give ${call} a whole number`,
  });
}
