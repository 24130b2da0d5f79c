import type { Storage } from "../../data/storage/storage.ts";
import { sortableId } from "../../foundation/ids.ts";
import type { RunDependencies } from "../dependencies.ts";
import { menderPrefix } from "../directory/layout.ts";
import { readJson, recordBytes } from "../directory/records.ts";
import { type RunStorage, runStorage } from "../directory/run-storage.ts";
import type { Processes, ProcessIdentity } from "./processes.ts";

/** What a process needs that changes published files. */
export type Mender = Pick<RunDependencies, "clock" | "random" | "processes">;

/**
 * Changes what is published, without leading the run. One that pauses in the middle and wakes when
 * the run has other results does harm to those, so it leaves a record first: while that is there,
 * `sluice clean` keeps the files that results are made again from.
 *
 * @param mend looks anew at what is to be done, since a cleaning may have come before the record.
 *   Where it throws, or its process dies, the record stays.
 */
export async function asMender<T>(
  storage: Storage,
  { clock, random, processes }: Mender,
  mend: () => Promise<T>,
): Promise<T> {
  const record = `${menderPrefix}${sortableId(clock, random)}.json`;
  await storage.createIfAbsent(record, recordBytes(processes.self()));
  const mended = await mend();
  await storage.remove(record);
  return mended;
}

/** One that may be changing published files still, of this run or of one whose place it took. */
export async function menderLeft(
  storage: Storage,
  processes: Processes,
): Promise<ProcessIdentity | undefined> {
  const own: RunStorage = runStorage(storage);
  for (let number = await own.number; number > 0; number--) {
    const run = own.of(number);
    for await (const { path } of run.list(menderPrefix)) {
      const mender = await readJson<ProcessIdentity>(run, path);
      if (mender && processes.look(mender) !== "dead") return mender;
    }
  }
  return undefined;
}
