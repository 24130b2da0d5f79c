import type { InferenceRequest, RequestOrigin, TextMessage } from "../foundation/inference.ts";

/** The origin of a row's request, and what only the row's other requests have to do with. */
export interface RowOrigin extends RequestOrigin {
  /** `{n}` of `join`, if it is not the position from 1. */
  number?: number;
  /**
   * Number of the row's request that must be answered before this one gets its messages: it goes on
   * from that answer.
   */
  after?: number;
}

/** A request that prompts make of a row. The run's own things stand in `origin`. */
export interface RowRequest extends InferenceRequest {
  origin: RowOrigin;
  messages?: readonly TextMessage[];
}
