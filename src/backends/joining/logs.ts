import { type Clock, sleep } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { LogOptions } from "./scheduler.ts";

/** The log of a worker, which the scheduler gives as a whole. */
export interface WorkerLog {
  name: string;
  share: number;
  read(): Promise<string>;
}

/** Writes logs one after another, and then what is new in them. */
export async function writeLogs(
  { share, follow, signal, write }: LogOptions,
  clock: Clock,
  find: () => Promise<readonly WorkerLog[]>,
  followIntervalMs = 2000,
): Promise<void> {
  const written = new Map<string, number>();
  let shown: string | undefined;
  for (;;) {
    for (const log of await find()) {
      if (share !== undefined && log.share !== share) continue;
      const bytes = Buffer.from(await log.read());
      const from = written.get(log.name) ?? 0;
      if (bytes.length <= from) continue;
      written.set(log.name, bytes.length);
      if (log.name !== shown) await write(Buffer.from(`==> ${log.name} <==\n`));
      shown = log.name;
      await write(bytes.subarray(from));
    }
    if (!follow && written.size === 0) {
      throw new SluiceError("NOT_FOUND", "no worker has a log, or it is not kept any more");
    }
    if (!follow || signal.aborted) return;
    await sleep(clock, followIntervalMs, signal).catch(() => {});
  }
}
