import type { JsonObject } from "../foundation/json.ts";

/** A function or class of the program, or the module that has one. */
export type StepCode =
  | {
      function: (...parameters: never[]) => unknown;
      /** Digest of its text, and of the values that it says it reads. */
      sha256: string;
    }
  | { module: string; export?: string };

/** One call on a dataset, as it is kept until something is asked of it. */
export type Step =
  | {
      kind: "stage";
      /** As the job has it, but for the code. */
      stage: JsonObject;
      code?: StepCode;
      /** Each row becomes one row, so that the first n of them come of the first n rows. */
      isOneToOne: boolean;
    }
  | { kind: "limit"; rows: number }
  | { kind: "sample"; rows?: number; share?: number; seed: number }
  | { kind: "shuffle"; seed: number }
  | { kind: "repartition"; shards: number };

/** Where the rows of a dataset come from. */
export type Source =
  | { kind: "rows"; rows: readonly JsonObject[] }
  /** `isTyped`: rows are as `toWire` has them. */
  | { kind: "input"; input: readonly JsonObject[]; isTyped?: boolean }
  /** The rows of several datasets, one after another. */
  | { kind: "union"; parts: readonly Pipeline[] };

/** A source and the steps behind it. */
export interface Pipeline {
  source: Source;
  steps: readonly Step[];
}
