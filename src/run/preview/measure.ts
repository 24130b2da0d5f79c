import type { Engine } from "../../engines/engine.ts";
import type { Clock } from "../../foundation/clock.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import {
  addUsage,
  type InferenceRequest,
  type InferenceResponse,
  noUsage,
  type Usage,
} from "../../foundation/inference.ts";
import { sendUntilAccepted, type TryOptions } from "../execute/tries.ts";
import { charactersOf, type Pace, type RenderedRow, type RowCost } from "./estimate.ts";

export interface MeasureOptions extends TryOptions {
  clock: Clock;
  signal: AbortSignal;
}

/** The results of sending some rows. */
export interface Measured {
  costs: RowCost[];
  /** Average number of requests in flight. */
  together: number;
  seconds: number;
}

/** Rows to measure by default: twice the engine's capacity, within these bounds. */
const leastRows = 20;
const mostRows = 100;

/** Rows for a measurement, spread evenly over the sampled ones. */
export function rowsToMeasure(
  sampled: readonly RenderedRow[],
  capacity: number,
  asked?: number,
): RenderedRow[] {
  const wanted = asked ?? Math.min(mostRows, Math.max(leastRows, 2 * capacity));
  const count = Math.min(wanted, sampled.length);
  return Array.from(
    { length: count },
    (_, at) => sampled[Math.floor((at * sampled.length) / count)]!,
  );
}

/**
 * Sends rows as a run would, as many at once as the engine can hold, and keeps their cost. Answers
 * are checked, requested again if they are wrong, and dropped.
 *
 * @throws SluiceError errors that would stop a run: of scope `run` or `engine`, and the signal's
 *   reason.
 */
export async function measureRows(
  engine: Engine,
  rows: readonly RenderedRow[],
  options: MeasureOptions,
): Promise<Measured> {
  const { clock } = options;
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const costs: RowCost[] = [];
  const startedMs = clock.monotonic();
  const waiting = rows.values();
  const asked = new Promise<void>((resolve, reject) => {
    let inFlight = 0;
    // The engine's capacity may rise while it answers.
    const fill = () => {
      while (inFlight < engine.capacity) {
        const { value: row } = waiting.next();
        if (row === undefined) break;
        inFlight++;
        costOf(engine, row, { ...options, signal }).then((cost) => {
          costs.push(cost);
          inFlight--;
          fill();
        }, reject);
      }
      if (inFlight === 0) resolve();
      else if (inFlight < engine.capacity) engine.flush?.();
    };
    fill();
  });
  try {
    await asked;
  } finally {
    stop.abort();
  }
  const seconds = (clock.monotonic() - startedMs) / 1000;
  const busy = costs.reduce((sum, cost) => sum + cost.seconds, 0);
  return { costs, seconds, together: seconds > 0 ? busy / seconds : 0 };
}

/**
 * How fast a run will be. The likely parallelism is that of the measurement; the lowest is its
 * average, because the last requests were alone; the highest is the capacity of all workers'
 * engines.
 *
 * @param capacity total capacity of all workers' engines.
 * @param workers workers with an engine of their own.
 */
export function paceOf(
  { costs, together }: Measured,
  startSeconds: number,
  capacity: number,
  workers: number,
): Pace {
  const most = capacity * workers;
  const likely = Math.max(1, Math.min(capacity, costs.length)) * workers;
  const least = together > 0 ? Math.min(together, likely) : likely;
  return { startSeconds, together: { estimated: likely, low: least, high: most } };
}

async function costOf(engine: Engine, row: RenderedRow, options: MeasureOptions): Promise<RowCost> {
  const { clock, promptSet, signal } = options;
  const { task, requests } = row;
  const responses: (InferenceResponse | undefined)[] = [];
  const cost = { task, usage: noUsage, seconds: 0, characters: charactersOf(row) };
  // A request that waits for its next try is not in flight.
  const ask = async (request: InferenceRequest) => {
    const startedMs = clock.monotonic();
    try {
      return await engine.infer(request, signal);
    } finally {
      cost.seconds += (clock.monotonic() - startedMs) / 1000;
    }
  };
  const add = (usage: Usage) => {
    cost.usage = addUsage(cost.usage, usage);
  };
  try {
    for (let at = 0; at < requests.length; at++) {
      const request = promptSet.ready(requests, responses, at);
      responses[at] = await sendUntilAccepted(ask, request, { ...options, addUsage: add });
    }
  } catch (thrown) {
    // The row is then a dead letter: no further request is sent for it.
    if (signal.aborted || asSluiceError(thrown).scope !== "row") throw thrown;
  }
  return cost;
}
