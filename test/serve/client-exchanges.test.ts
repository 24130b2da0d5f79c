import { EventEmitter } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { sleep } from "../../src/foundation/clock.ts";
import { asSluiceError } from "../../src/foundation/errors.ts";
import { ClientExchanges } from "../../src/serve/client-exchanges.ts";
import { virtualClock } from "../fakes/virtual-clock.ts";

/** An exchange of a client, with the times after its start at which things happen. */
interface Client {
  startMs: number;
  wholeMs: number;
  answeredMs: number;
  mustArrive: boolean;
}

/** Even ones for what clients do and odd ones for limits: nothing happens at the same time. */
const times = fc.integer({ min: 0, max: 1500 }).map((half) => 2 * half);
const clients = fc.array(
  fc.record({ startMs: times, wholeMs: times, answeredMs: times, mustArrive: fc.boolean() }),
  { minLength: 1, maxLength: 12 },
);

/** What became of a client, and when. */
async function carryOut(
  { startMs, wholeMs, answeredMs, mustArrive }: Client,
  exchanges: ClientExchanges,
  clock: ReturnType<typeof virtualClock>,
): Promise<[what: string, afterMs: number]> {
  await sleep(clock, startMs);
  const { promise, resolve } = Promise.withResolvers<[string, number]>();
  const end = (what: string) => resolve([what, Math.round(clock.monotonic() - startMs)]);
  const response = Object.assign(new EventEmitter(), { writableFinished: false });
  const request = Object.assign(new EventEmitter(), {
    ...{ complete: false, destroyed: false },
    socket: { end: () => end("slow") },
    destroy() {
      this.destroyed = true;
      response.emit("close");
    },
  });
  const gone = exchanges.begin(
    request as unknown as IncomingMessage,
    response as unknown as ServerResponse,
    mustArrive,
    () => end("answered"),
  );
  gone.addEventListener("abort", () => end(asSluiceError(gone.reason).code));
  clock.schedule(wholeMs, () => {
    request.complete = true;
    request.emit("close");
  });
  clock.schedule(answeredMs, () => {
    if (request.destroyed) return;
    response.writableFinished = true;
    response.emit("close");
  });
  return promise;
}

describe("ClientExchanges", () => {
  it("ends each exchange at its own time, whatever the others do", async () => {
    await fc.assert(
      fc.asyncProperty(clients, times, times, async (all, arrival, whole) => {
        const [requestArrivalTimeoutMs, requestTimeoutMs] = [arrival + 1, whole + 1];
        const clock = virtualClock();
        const exchanges = new ClientExchanges({ requestArrivalTimeoutMs, requestTimeoutMs }, clock);
        const ended = Promise.all(all.map((each) => carryOut(each, exchanges, clock)));
        const ends = await clock.run(ended);
        for (const [at, { wholeMs, answeredMs, mustArrive }] of all.entries()) {
          const isSlow = mustArrive && wholeMs > requestArrivalTimeoutMs;
          const possible: [string, number][] = [
            ["answered", answeredMs],
            ["REQUEST_TIMED_OUT", requestTimeoutMs],
            ["slow", isSlow ? requestArrivalTimeoutMs : Number.POSITIVE_INFINITY],
          ];
          const firstMs = Math.min(...possible.map(([, afterMs]) => afterMs));
          // Both limits may be the same.
          expect(possible.filter(([, afterMs]) => afterMs === firstMs)).toContainEqual(ends[at]);
        }
      }),
      { numRuns: 300 },
    );
  });
});
