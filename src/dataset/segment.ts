import type { JsonObject } from "../foundation/json.ts";
import type { JobInput } from "../run/job/schema.ts";
import type { Source, Step, StepCode } from "./step.ts";

/** Steps that a single job can run: an input and the stages that its rows pass through. */
export interface Segment {
  input: readonly JsonObject[];
  stages: readonly JsonObject[];
  /** Functions of this program; stages refer to them by index. */
  functions: readonly unknown[];
  limit?: number;
  shards?: number;
  /** True if the input's rows are in the form of `toWire`. */
  typedInput: boolean;
  /** True if the first n results come from the first n rows. */
  isOneToOne: boolean;
}

/** A step that needs all rows before it, in one place. */
export type Barrier =
  | Extract<Step, { kind: "limit" | "sample" | "shuffle" }>
  /** The end of a dataset that another dataset follows. */
  | { kind: "union" };

/** A segment that reads an input and has no stages yet. */
export function segmentOf(
  input: readonly JsonObject[],
  typedInput = false,
  shards?: number,
): Segment {
  const cut = shards === undefined ? {} : { shards };
  return { input, typedInput, stages: [], functions: [], isOneToOne: true, ...cut };
}

/** The segment with one more step; undefined if that step is a barrier, which ends the segment. */
export function withStep(segment: Segment, step: Step): Segment | undefined {
  if (step.kind === "repartition") return { ...segment, shards: step.shards };
  if (step.kind === "limit" && segment.isOneToOne) {
    return { ...segment, limit: Math.min(step.rows, segment.limit ?? step.rows) };
  }
  if (step.kind !== "stage") return undefined;
  const { stage, code, isOneToOne } = step;
  const { functions } = segment;
  const isFunction = code !== undefined && "function" in code;
  return {
    ...segment,
    stages: [...segment.stages, { ...stage, ...codeMembers(code, functions.length) }],
    functions: isFunction ? [...functions, code.function] : functions,
    isOneToOne: segment.isOneToOne && isOneToOne,
  };
}

/**
 * The job of a segment, without its output.
 *
 * @param typedOutput true if its results are the input of another segment.
 */
export function jobOfSegment(
  segment: Segment,
  resources: JsonObject | undefined,
  typedOutput = false,
) {
  const { input, stages, typedInput, limit, shards } = segment;
  const model = {
    ...{ engine: "pipeline", stages },
    ...(resources && { resources }),
    ...(typedInput && { typedInput }),
    ...(typedOutput && { typedOutput }),
  };
  return {
    input,
    model,
    ...(limit !== undefined && { limit }),
    ...(shards !== undefined && { shard: { count: shards } }),
  } as unknown as Pick<JobInput, "input" | "model" | "limit" | "shard">;
}

export function* linesOfRows({ rows }: Extract<Source, { kind: "rows" }>): Generator<string> {
  for (const row of rows) yield JSON.stringify(row);
}

function codeMembers(code: StepCode | undefined, at: number): JsonObject {
  if (code === undefined) return {};
  if ("module" in code) {
    return { module: code.module, ...(code.export !== undefined && { export: code.export }) };
  }
  return { closure: { at, name: code.function.name, sha256: code.sha256 } };
}
