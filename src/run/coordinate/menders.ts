import type { Storage } from "../../data/storage/storage.ts";
import { sortableId } from "../../foundation/ids.ts";
import type { RunDependencies } from "../dependencies.ts";
import { menderPrefix } from "../directory/layout.ts";
import { readJson, recordBytes } from "../directory/records.ts";
import { type RunStorage, runStorage } from "../directory/run-storage.ts";
import type { Processes, ProcessIdentity } from "./processes.ts";

/** The needs of a process that changes published files. */
export type Mender = Pick<RunDependencies, "clock" | "random" | "processes">;

/**
 * Changes published files without leading the run. If such a process is paused and continues when
 * the run has newer results, it damages them. So it writes a record first: while the record exists,
 * `sluice clean` keeps the files that results are rebuilt from.
 *
 * @param mend checks again what is to be done, because a cleaning may have come before the record.
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

/** The record of a process that changed published files, and its run. */
interface MenderRecord {
  run: RunStorage;
  path: string;
  bytes: number;
  identity: ProcessIdentity;
}

async function* menderRecords(storage: Storage): AsyncGenerator<MenderRecord> {
  const own: RunStorage = runStorage(storage);
  for (let number = await own.number; number > 0; number--) {
    const run = own.of(number);
    for await (const { path, bytes } of run.list(menderPrefix)) {
      const identity = await readJson<ProcessIdentity>(run, path);
      if (identity) yield { run, path, bytes, identity };
    }
  }
}

/** A process that may still be changing published files. */
export async function menderLeft(
  storage: Storage,
  processes: Processes,
): Promise<ProcessIdentity | undefined> {
  for await (const { identity } of menderRecords(storage)) {
    if (processes.look(identity) !== "dead") return identity;
  }
  return undefined;
}

/** The records of processes that are known to be dead; one on another host may continue. */
export async function* deadMenders(
  storage: Storage,
  processes: Processes,
): AsyncGenerator<MenderRecord> {
  for await (const record of menderRecords(storage)) {
    if (processes.look(record.identity) === "dead") yield record;
  }
}
