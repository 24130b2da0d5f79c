import { fromColumns, toColumns } from "../../foundation/column-batch.ts";
import type { ErrorCode } from "../../foundation/error-table.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { toCodeValue } from "../../foundation/exact-json.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { specialsIn, typedResult } from "../../foundation/json-result.ts";
import { miscounted } from "../batching/miscounted.ts";
import { isOutOfMemory } from "../batching/out-of-memory.ts";
import { explained, isClass } from "../user-module.ts";
import type { StageOptions } from "./options.ts";
import { givesAnyRows } from "./stage-facts.ts";

/** Waits for what code promised, as long as it is wanted. @throws GivenUp */
export type Until = (promised: PromiseLike<unknown>) => Promise<unknown>;

/** Nobody waits for a function any more. */
export class GivenUp {
  readonly reason: unknown;

  constructor(reason: unknown) {
    this.reason = reason;
  }
}

/** The results of one row at a stage; none = it is filtered. */
export type RowFunction = (row: JsonObject, until?: Until) => Promise<readonly JsonObject[]>;

/**
 * The results of each row of a batch, in their order, or the error of a row that fails alone; for a
 * stage with any number of rows, one list with the results of the whole batch.
 */
export type BatchFunction = (
  rows: readonly JsonObject[],
) => Promise<readonly (readonly JsonObject[] | Error)[]>;

/** A stage, and its name in messages. */
export interface LabelledStage {
  stage: StageOptions;
  label: string;
}

type Callable = (...parameters: unknown[]) => unknown;

/**
 * A stage of rows, as a function. Its own code is called with a row.
 *
 * @param code the export of its module, or the program's function; none for `select` and `rename`.
 */
export function rowFunction({ stage, label }: LabelledStage, code?: unknown): RowFunction {
  const call = callOf(stage, label, code);
  return async (row, until) => {
    try {
      const specials = specialsIn(row);
      const made = call(row);
      // Most functions give their result at once.
      const result = until && isThenable(made) ? await until(made) : await made;
      return rowsOf(stage, row, result, specials);
    } catch (thrown) {
      if (thrown instanceof GivenUp) throw thrown.reason;
      throw stageError(thrown, { stage, label });
    }
  };
}

/** A stage's work on a row, before its result is checked. */
function callOf(stage: StageOptions, label: string, code: unknown): Callable {
  const { kind, columns } = stage;
  if (kind === "select") return (row) => selected(row as JsonObject, columns as string[]);
  if (kind === "rename") {
    return (row) => renamed(row as JsonObject, columns as Record<string, string>);
  }
  const call = callable(code, label, stage);
  return (row) => call(toCodeValue(row as JsonObject));
}

function rowsOf(
  { kind, column }: StageOptions,
  row: JsonObject,
  result: unknown,
  specials: ReadonlySet<number>,
): JsonObject[] {
  if (kind === "filter") return result ? [row] : [];
  if (kind === "select" || kind === "rename") return [result as JsonObject];
  if (kind === "flatMap") {
    if (isIterable(result)) return Array.from(result, (each) => rowOf(each, specials));
    throw new Error(`it gives no list of rows, but ${kindOf(result)}`);
  }
  return [
    column === undefined ? rowOf(result, specials) : { ...row, [column]: jsonOf(result, specials) },
  ];
}

/**
 * A stage of batches, as a function: for a class an instance, made with `constructorArgs` and
 * loaded.
 *
 * @throws SluiceError `STAGE_UNUSABLE` if its code cannot be called.
 */
export async function batchFunction(
  { stage, label }: LabelledStage,
  code: unknown,
): Promise<BatchFunction> {
  const call = await loadedBatchCode(code, { stage, label });
  return async (rows) => {
    try {
      const given = rows.map(toCodeValue) as JsonObject[];
      const batch = stage.batchFormat === "columns" ? toColumns(given) : given;
      const specials = specialsIn(given);
      const results = await call(batch);
      const list = await settledResults(results);
      return batchResults(list, given.length, specials, { stage, label });
    } catch (thrown) {
      throw stageError(thrown, { stage, label });
    }
  };
}

async function loadedBatchCode(code: unknown, { stage, label }: LabelledStage): Promise<Callable> {
  if (typeof code === "function" && !isClass(code)) return code as Callable;
  const parameters = (stage.constructorArgs ?? []) as unknown[];
  try {
    const instance = (
      typeof code === "function"
        ? new (code as new (...given: unknown[]) => object)(...parameters)
        : code
    ) as { load?: Callable; call?: Callable } | null | undefined;
    if (typeof instance?.call !== "function") {
      throw new SluiceError(
        "STAGE_UNUSABLE",
        `${label}: it is neither a function nor a class with call(batch)`,
      );
    }
    await instance.load?.();
    return (batch) => instance.call!(batch);
  } catch (thrown) {
    if (thrown instanceof SluiceError) throw thrown;
    const why = explained(thrown, stage.module ?? "");
    throw new SluiceError("STAGE_UNUSABLE", `${label}: it cannot be loaded: ${why}`, {
      cause: thrown,
    });
  }
}

/** The results that code returned for a batch; for a promise that was rejected, its error. */
async function settledResults(results: unknown): Promise<unknown[]> {
  if (!isIterable(results)) return columnsResult(results);
  const list = Array.from(results);
  if (!list.some(isThenable)) return list;
  // All of them are heard at once: one that nobody hears would end the process.
  const settled = await Promise.allSettled(list);
  return settled.map((each) => {
    if (each.status === "fulfilled") return each.value;
    return each.reason instanceof Error ? each.reason : new Error(String(each.reason));
  });
}

function batchResults(
  list: readonly unknown[],
  rows: number,
  specials: ReadonlySet<number>,
  labelled: LabelledStage,
): (readonly JsonObject[] | Error)[] {
  if (givesAnyRows(labelled.stage)) {
    for (const each of list) if (each instanceof Error) throw each;
    return [list.map((row) => rowOf(row, specials))];
  }
  if (list.length !== rows) throw miscounted(list, rows, labelled.label);
  return list.map((result) => {
    try {
      if (result instanceof Error) return stageError(result, labelled);
      const own = isIterable(result) ? Array.from(result) : [result];
      return own.map((row) => rowOf(row, specials));
    } catch (thrown) {
      return stageError(thrown, labelled);
    }
  });
}

function columnsResult(results: unknown): unknown[] {
  if (typeof results === "object" && results !== null) {
    return fromColumns(results as Record<string, ArrayLike<unknown>>);
  }
  throw new Error(`it gives neither rows nor columns, but ${kindOf(results)}`);
}

/** Errors that are made here; any other error comes from the code. */
const ownCodes: readonly ErrorCode[] = ["STAGE_FAILED", "RESULTS_MISCOUNTED", "OUT_OF_MEMORY"];

/** The error of a row, from what a stage's code threw. */
function stageError(thrown: unknown, { stage, label }: LabelledStage): SluiceError {
  if (thrown instanceof SluiceError && ownCodes.includes(thrown.code)) return thrown;
  const code = isOutOfMemory(thrown) ? "OUT_OF_MEMORY" : "STAGE_FAILED";
  const detail = `${label}: ${explained(thrown, stage.module ?? "")}`;
  return new SluiceError(code, detail, { cause: thrown });
}

function callable(code: unknown, label: string, { kind }: StageOptions): Callable {
  if (typeof code === "function" && !isClass(code)) return code as Callable;
  throw new SluiceError(
    "STAGE_UNUSABLE",
    `${label}: ${kind} needs a function, not ${kindOf(code)}`,
  );
}

function rowOf(result: unknown, specials: ReadonlySet<number>): JsonObject {
  const json = jsonOf(result, specials);
  if (isJsonObject(json)) return json;
  throw new Error(`it gives ${kindOf(result)} where a row is wanted, such as {text: "…"}`);
}

function jsonOf(result: unknown, specials: ReadonlySet<number>): Json {
  // Rows between stages hold more than JSON: the code that writes them converts them.
  return typedResult(result, (problem) => new Error(`its result${problem}`), specials) as Json;
}

function selected(row: JsonObject, columns: readonly string[]): JsonObject {
  const present = columns.filter((name) => Object.hasOwn(row, name));
  if (present.length > 0) return Object.fromEntries(present.map((name) => [name, row[name]!]));
  throw new Error(`the row has no column ${columns.join(", ")}, but ${namesOf(row)}`);
}

function renamed(row: JsonObject, names: Readonly<Record<string, string>>): JsonObject {
  const entries = Object.entries(row).map(([name, value]): [string, Json] => [
    Object.hasOwn(names, name) ? names[name]! : name,
    value,
  ]);
  const left = Object.fromEntries(entries);
  if (Object.keys(left).length === entries.length) return left;
  throw new Error(`two columns would have one name: the row has ${namesOf(row)}`);
}

function namesOf(row: JsonObject): string {
  return Object.keys(row).join(", ") || "none";
}

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.iterator in value;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  if (typeof value !== "object" || value === null || !("then" in value)) return false;
  return typeof value.then === "function";
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (isClass(value)) return "a class";
  return Array.isArray(value) ? "a list" : `a value of type ${typeof value}`;
}
