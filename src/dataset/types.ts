import type { Json, JsonObject } from "../foundation/json.ts";
import type { TypedValue } from "../foundation/typed-json.ts";

/** What a stage may give at once or later. */
export type Awaitable<T> = T | Promise<T>;

/** A batch by columns: lists of one length. */
export type Columns<Row> = { [Name in keyof Row]: Row[Name][] };

/** What a column may be made of: lists, typed arrays. */
export type ColumnValues<Row> = { [Name in keyof Row]: ArrayLike<Row[Name]> };

/**
 * What a stage makes of each row of a batch, in their order: a row, several (none = it is
 * filtered), or an `Error`, by which that row fails alone.
 */
export type BatchResults<Out> = Iterable<Out | readonly Out[] | Error>;

/** A class whose instance takes batches, one for each replica. */
export type BatchClass<Arguments extends readonly unknown[], Batch, Result> = new (
  ...parameters: Arguments
) => {
  /** Called once, before the first batch: loads what takes long. */
  load?(): Awaitable<void>;
  call(batch: Batch): Awaitable<Result>;
};

/** How a batch is handed over. */
export type BatchFormat = "rows" | "columns";

/** A function or a class of batches. */
export type BatchCode<Row, Out, Arguments extends readonly unknown[], Format extends BatchFormat> =
  | ((batch: BatchOf<Row, Format>) => Awaitable<ResultsOf<Out, Format>>)
  | BatchClass<Arguments, BatchOf<Row, Format>, ResultsOf<Out, Format>>;

type BatchOf<Row, Format extends BatchFormat> = Format extends "columns" ? Columns<Row> : Row[];

type ResultsOf<Out, Format extends BatchFormat> = Format extends "columns"
  ? ColumnValues<Out>
  : BatchResults<Out>;

/** What follows the code of batches: its `constructorArgs` too, where a class needs them. */
export type CodeOptions<
  Arguments extends readonly unknown[],
  Format extends BatchFormat,
> = [] extends Arguments
  ? [options?: BatchOptions & { batchFormat?: Format; constructorArgs?: Arguments }]
  : [options: BatchOptions & { batchFormat?: Format; constructorArgs: Arguments }];

/** A row of which nothing is known: what a module makes, where nobody says its type. */
export type UntypedRow = Record<string, unknown>;

/** What a row may be: an object, but not a list, `Map` or `Set`. */
export type RowLike = object & { readonly [Symbol.iterator]?: never };

/** Names in any of the rows of a union. */
export type ColumnOf<Row> = Row extends unknown ? keyof Row & string : never;

/** New names, without those that another column has already. */
export type FreeNames<Row, Names> = string extends keyof Row
  ? Names
  : {
      [Name in keyof Names]: Names[Name] extends Exclude<keyof Row, keyof Names>
        ? never
        : Names[Name];
    };

/** A row with other names for some of its columns. */
export type Renamed<Row, Names> = {
  [Name in keyof Row as Name extends keyof Names
    ? Names[Name] extends string
      ? Names[Name]
      : Name
    : Name]: Row[Name];
};

/** A row with one column more, or another one. */
export type WithColumn<Row, Name extends string, Value> = Omit<Row, Name> & {
  [name in Name]: Value;
};

/** A row as `dataset.from` takes it: an object is one, any other value becomes `{data: value}`. */
export type RowFrom<Value> = Value extends readonly unknown[]
  ? { data: Value }
  : Value extends TypedValue
    ? { data: Value }
    : Value extends object
      ? Value
      : { data: Value };

export type { Json, JsonObject };

/** Values that a function of the program reads around itself, by name. */
export type Closure = Readonly<Record<string, unknown>>;

/** What can be said of a function of rows. */
export interface FunctionOptions {
  /**
   * Values that the function reads around itself: `{ threshold }`. They count in what the run is
   * of, as the function's text does; with other values a run that the output holds is refused
   * (`RUN_DIFFERS`). Values that are not named here are not seen.
   */
  closure?: Closure;
}

/** How `iterBatches` forms batches. */
export interface IterBatchesOptions {
  /** Rows of each batch, but for the last one; default 256. */
  batchSize?: number;
  /** `columns` gives lists by column; default `rows`. */
  batchFormat?: BatchFormat;
  /** Leaves out the last batch where it is not full; default false. */
  dropLast?: boolean;
}

/** How `mapBatches` forms batches, and how many replicas of its code there are. */
export interface BatchOptions extends FunctionOptions {
  /**
   * Rows of each batch, exactly, until a shard ends; shards are planned as multiples of it.
   * Default: what waits, up to 256 rows, fewer where rows are large.
   */
  batchSize?: number;
  /**
   * `"any"`: a batch may become any number of rows, as with Ray's `map_batches`. Batches are then
   * those of `batchSize` neighbouring rows of the input (default 256), and each has one outcome:
   * the code of `mapBatches` sees what the stages before made of them. Default `"same"`: one result
   * for each row; another number is `RESULTS_MISCOUNTED` of the whole batch.
   */
  rows?: "same" | "any";
  /** `columns` hands over lists by column; default `rows`. */
  batchFormat?: BatchFormat;
  /** Replicas: each a process of its own where the code is in a module. Default 1, or what fits. */
  concurrency?: number;
  /** Cores that a replica takes: no more replicas are started than fit. */
  numCpus?: number;
  /** GPUs that a replica takes, as 1 or 0.5; it sees no others. */
  numGpus?: number;
  /** Memory that a replica takes, in bytes or as `4G`: no more are started than are free. */
  memory?: number | string;
  /** What a class is made with; of code in a module, values that JSON has. */
  constructorArgs?: readonly unknown[];
  /** Time a batch may take; then its process is ended. Default 600,000. */
  timeoutMs?: number;
  /** What `stats()` and events call it; default: the name of the function or export. */
  name?: string;
}
