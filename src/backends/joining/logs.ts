import { type Clock, sleep } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { LogOptions } from "./scheduler.ts";

export interface WorkerLog {
  name: string;
  /** What it has from this byte on. */
  readFrom(offset: number): AsyncIterable<Uint8Array>;
}

/** A log that its scheduler gives as a whole only. */
export const wholeLog = (name: string, read: () => Promise<string>): WorkerLog => ({
  name,
  async *readFrom(offset) {
    yield Buffer.from(await read()).subarray(offset);
  },
});

/** Writes logs one after another, and then what is new in them. */
export async function writeLogs(
  { follow, signal, write }: Omit<LogOptions, "share">,
  clock: Clock,
  find: () => Promise<readonly WorkerLog[]>,
  followIntervalMs = 2000,
): Promise<void> {
  const written = new Map<string, number>();
  let shown: string | undefined;
  for (;;) {
    for (const log of await find()) {
      let offset = written.get(log.name) ?? 0;
      for await (const bytes of log.readFrom(offset)) {
        if (bytes.length === 0) continue;
        if (log.name !== shown) await write(Buffer.from(`==> ${log.name} <==\n`));
        shown = log.name;
        await write(bytes);
        offset += bytes.length;
        written.set(log.name, offset);
      }
    }
    if (!follow && written.size === 0) {
      throw new SluiceError("NOT_FOUND", "no worker has a log, or it is not kept any more");
    }
    if (!follow || signal.aborted) return;
    await sleep(clock, followIntervalMs, signal).catch(() => {});
  }
}
