import { sleep, systemClock } from "../src/foundation/clock.ts";

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Waits until the processes are gone; what never ends runs into the test's limit. */
export async function untilGone(pids: readonly number[]): Promise<void> {
  while (pids.some(isAlive)) await sleep(systemClock, 10);
}
