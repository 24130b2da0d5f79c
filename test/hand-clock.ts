import type { Clock } from "../src/foundation/clock.ts";

/**
 * A clock that stands still until it is moved. A timer that is due fires once, however far it was
 * moved, and all that are due fire before anything else happens: so wakes a machine that slept.
 */
export function handClock(): { clock: Clock; pass(ms: number): void } {
  let now = 0;
  const waiting = new Map<object, { at: number; callback: () => void }>();
  const clock: Clock = {
    now: () => now,
    monotonic: () => now,
    schedule(delayMs, callback) {
      const key = {};
      waiting.set(key, { at: now + delayMs, callback });
      return () => waiting.delete(key);
    },
  };
  const pass = (ms: number) => {
    now += ms;
    for (const [key, { at, callback }] of [...waiting]) {
      if (at > now || !waiting.delete(key)) continue;
      callback();
    }
  };
  return { clock, pass };
}
