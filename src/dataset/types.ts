import type { Json, JsonObject } from "../foundation/json.ts";
import type { TypedValue } from "../foundation/typed-json.ts";

/** What a stage may return: a value, or a promise of it. */
export type Awaitable<T> = T | Promise<T>;

/** A batch by columns: lists of equal length. */
export type Columns<Row> = { [Name in keyof Row]: Row[Name][] };

/** Columns that a stage may return: lists or typed arrays. */
export type ColumnValues<Row> = { [Name in keyof Row]: ArrayLike<Row[Name]> };

/**
 * What a stage returns for the rows of a batch, in their order: for each row a row, a list of rows
 * (an empty list filters it out), or an `Error`, by which this row fails alone; or a promise of one
 * of these.
 */
export type BatchResults<Out> = Iterable<Awaitable<Out | readonly Out[] | Error>>;

/** A class whose instances process batches, one instance for each replica. */
export type BatchClass<Arguments extends readonly unknown[], Batch, Result> = new (
  ...parameters: Arguments
) => {
  /** Called once before the first batch, to load what takes long. */
  load?(): Awaitable<void>;
  call(batch: Batch): Awaitable<Result>;
};

/** The form of a batch. */
export type BatchFormat = "rows" | "columns";

/** A function or a class that processes batches. */
export type BatchCode<Row, Out, Arguments extends readonly unknown[], Format extends BatchFormat> =
  | ((batch: BatchOf<Row, Format>) => Awaitable<ResultsOf<Out, Format>>)
  | BatchClass<Arguments, BatchOf<Row, Format>, ResultsOf<Out, Format>>;

type BatchOf<Row, Format extends BatchFormat> = Format extends "columns" ? Columns<Row> : Row[];

type ResultsOf<Out, Format extends BatchFormat> = Format extends "columns"
  ? ColumnValues<Out>
  : BatchResults<Out>;

/**
 * The arguments after the code of batches; `constructorArgs` is needed if the class has parameters.
 */
export type CodeOptions<
  Arguments extends readonly unknown[],
  Format extends BatchFormat,
> = [] extends Arguments
  ? [options?: BatchOptions & { batchFormat?: Format; constructorArgs?: Arguments }]
  : [options: BatchOptions & { batchFormat?: Format; constructorArgs: Arguments }];

/** A row of unknown type, such as a module's result if its type is not stated. */
export type UntypedRow = Record<string, unknown>;

/** A row: an object, but not a list, `Map` or `Set`. */
export type RowLike = object & { readonly [Symbol.iterator]?: never };

/** Column names of all rows in a union type. */
export type ColumnOf<Row> = Row extends unknown ? keyof Row & string : never;

/** New names, without those that another column has. */
export type FreeNames<Row, Names> = string extends keyof Row
  ? Names
  : {
      [Name in keyof Names]: Names[Name] extends Exclude<keyof Row, keyof Names>
        ? never
        : Names[Name];
    };

/** A row with some of its columns renamed. */
export type Renamed<Row, Names> = {
  [Name in keyof Row as Name extends keyof Names
    ? Names[Name] extends string
      ? Names[Name]
      : Name
    : Name]: Row[Name];
};

/** A row with one column added or replaced. */
export type WithColumn<Row, Name extends string, Value> = Omit<Row, Name> & {
  [name in Name]: Value;
};

/**
 * The row that `dataset.from` makes of a value: an object itself, any other value as `{data:
 * value}`.
 */
export type RowFrom<Value> = Value extends readonly unknown[]
  ? { data: Value }
  : Value extends TypedValue
    ? { data: Value }
    : Value extends object
      ? Value
      : { data: Value };

export type { Json, JsonObject };

/** Outer values that a function of the program reads, by name. */
export type Closure = Readonly<Record<string, unknown>>;

/** Options of a function of rows. */
export interface FunctionOptions {
  /**
   * Outer values that the function reads, such as `{ threshold }`. Like the function's text, they
   * identify the run: with other values, an output that holds the run is refused (`RUN_DIFFERS`).
   * Changes of values that are not named here go unnoticed.
   */
  closure?: Closure;
}

/** How `iterBatches` forms batches. */
export interface BatchesForm {
  /** Rows of each batch except the last; default 256. */
  batchSize?: number;
  /** `columns` passes lists by column; default `rows`. */
  batchFormat?: BatchFormat;
  /** Drops the last batch if it is not full; default false. */
  dropLast?: boolean;
}

/** How `mapBatches` forms batches, and the replicas of its code. */
export interface BatchOptions extends FunctionOptions {
  /**
   * Rows of each batch, exactly, except at the end of a task; tasks are planned as multiples of
   * it. Default: the waiting rows, up to 256, fewer if rows are large.
   */
  batchSize?: number;
  /**
   * `"any"`: the code may return any number of rows for a batch, as in Ray's `map_batches`. A batch
   * is then formed from `batchSize` neighbouring rows of the input (default 256) and has one
   * outcome; the code gets what earlier stages made of these rows. Default `"same"`: one result for
   * each row. With another number, the whole batch fails with `RESULTS_MISCOUNTED`.
   */
  rows?: "same" | "any";
  /** `columns` passes lists by column; default `rows`. */
  batchFormat?: BatchFormat;
  /**
   * Replicas; if the code is in a module, each is a process of its own. Default 1, or what fits.
   */
  concurrency?: number;
  /** Cores of one replica. Only as many replicas start as fit. */
  numCpus?: number;
  /** GPUs of one replica, such as 1 or 0.5. It sees no others. */
  numGpus?: number;
  /** Memory of one replica, in bytes or as `4G`. Only as many replicas start as fit. */
  memory?: number | string;
  /** Arguments of the class's constructor: JSON values, which are written into the plan. */
  constructorArgs?: readonly unknown[];
  /**
   * Time that a batch may take, in milliseconds; default 600,000. Then the process of a module is
   * ended, and nobody waits for a function of the program any more: its batch fails.
   */
  timeoutMs?: number;
  /** Name of the stage in `stats()` and events; default: the name of the function or export. */
  name?: string;
}
