import type { JsonObject } from "../foundation/json.ts";

/** A function or class of the program, or the module that exports one. */
export type StepCode =
  | {
      function: (...parameters: never[]) => unknown;
      /** Digest of its text and of the values in its `closure`. */
      sha256: string;
    }
  | { module: string; export?: string };

/** One call on a dataset, kept until the dataset is run. */
export type Step =
  | {
      kind: "stage";
      /** As in a job, without the code. */
      stage: JsonObject;
      code?: StepCode;
      /** Each row becomes one row, so the first n results come from the first n rows. */
      isOneToOne: boolean;
    }
  | { kind: "limit"; rows: number }
  | { kind: "sample"; rows?: number; share?: number; seed: number }
  | { kind: "shuffle"; seed: number }
  | { kind: "repartition"; shards: number };

/** Where the rows of a dataset come from. */
export type Source =
  | { kind: "rows"; rows: readonly JsonObject[] }
  /** `isTyped`: rows are in the form of `toWire`. */
  | { kind: "input"; input: readonly JsonObject[]; isTyped?: boolean }
  /** The rows of several datasets, one dataset after another. */
  | { kind: "union"; parts: readonly Pipeline[] };

export interface Pipeline {
  source: Source;
  steps: readonly Step[];
}
