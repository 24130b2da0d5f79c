import type { InferenceRequest, RequestOrigin } from "../foundation/inference.ts";

/** The origin of a row's request, with facts for the row's other requests. */
export interface RowOrigin extends RequestOrigin {
  /** The value of `{n}` in `join`, if it is not the position from 1. */
  number?: number;
  /** Index of the row's request that this one continues, and whose answer it waits for. */
  after?: number;
}

/** A request that prompts make from a row. Facts for the run are in `origin`. */
export interface RowRequest extends InferenceRequest {
  origin: RowOrigin;
}
