import { workerPrefix } from "../../src/run/directory/layout.ts";
import { readJson } from "../../src/run/directory/records.ts";
import type { WorkerRecord } from "../../src/run/worker/run-worker.ts";
import type { World } from "./world.ts";

/** Reports workers of a scheduler whose run is taken away while they say that they are at work. */
export async function checkRemoval(world: World): Promise<void> {
  const { run: directory, scenario } = world;
  // Where storage is slow or fails, a heartbeat may be missed for good reason.
  if (scenario.storageFaultRate > 0 || scenario.fullDisk || scenario.storeMs > 10) return;
  for await (const { path } of directory.list(workerPrefix)) {
    const record = await readJson<WorkerRecord>(directory, path);
    const actor = record && world.actors[record.pid - 1];
    if (actor?.role !== "rival" || record?.status === "successful") continue;
    const isAtWork = actor.process.state === "running" && !actor.hasEnded;
    // One that was paused has missed heartbeats and looks dead.
    if (!isAtWork || actor.pausedAtTurn !== undefined) continue;
    world.violate(`the run is removed while ${actor.role} ${actor.pid} is at work on it`);
  }
}
