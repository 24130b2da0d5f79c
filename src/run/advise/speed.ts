import { exactly, type Interval, intervalOf, scaled, unitsOf } from "../bill/interval.ts";
import { type Measured, paceOf } from "../preview/measure.ts";

/** The speed of one worker, measured with some rows. */
export interface Speed {
  /** Seconds until its engine was open. */
  startSeconds: number;
  /** Seconds from a request to its answer. */
  rowSeconds: number;
  /** Seconds of the worker's time for a row, with as many rows in flight as possible. */
  secondsPerRow: Interval;
}

/**
 * The speed of one worker from a measurement.
 *
 * @param capacity requests that its engine holds.
 * @param rows rows of the whole input, to which the estimate of the sample is scaled.
 */
export function speedOf(
  measured: Measured,
  startSeconds: number,
  capacity: number,
  rows: number,
): Speed {
  const { costs } = measured;
  const { together } = paceOf(measured, startSeconds, capacity, 1);
  const units = unitsOf(costs.map(({ task, seconds }) => ({ task, size: 1, value: seconds })));
  const busy = rows === 0 ? exactly(0) : scaled(intervalOf(units, rows), 1 / rows);
  const all = costs.reduce((sum, { seconds }) => sum + seconds, 0);
  return {
    startSeconds,
    rowSeconds: costs.length === 0 ? 0 : all / costs.length,
    secondsPerRow: {
      estimated: busy.estimated / together.estimated,
      low: busy.low / together.high,
      high: busy.high / together.low,
    },
  };
}
