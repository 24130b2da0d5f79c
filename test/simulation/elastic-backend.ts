import { localWorkers } from "../../src/backends/local/local.ts";
import { limits } from "../../src/foundation/limits.ts";
import { mix32, type Random, seededRandom } from "../../src/foundation/random.ts";
import type { Backend } from "../../src/run/dispatch/backend.ts";
import type { DrainNotice, RefusedStart, WorkerHandle } from "../../src/run/dispatch/dispatch.ts";
import { dispatcherOf } from "../../src/run/dispatch/dispatcher-of.ts";
import type { Actor } from "./actor.ts";
import type { World } from "./world.ts";

/** Drains in one call: places that always leave would let no run end. */
const maxDrains = 6;

/** A cluster: it refuses starts for now, and takes places away with notice. All by the seed. */
export function elasticBackend(world: World, coordinator: Actor): Backend {
  const random = seededRandom(mix32(world.scenario.seed ^ 0xe1a5) ^ coordinator.pid);
  const { clock } = coordinator.process;
  let drains = 0;
  const startWorker = async (generation: number): Promise<WorkerHandle | RefusedStart> => {
    if (random.next() < 0.3) return refusedStart(world, random);
    const handle = world.startWorker(coordinator, generation);
    const worker = world.actors.at(-1)!;
    if (drains >= maxDrains || random.next() < 0.4) return handle;
    drains++;
    const drained = new Promise<DrainNotice>((resolve) => {
      clock.schedule(random.next() * world.scenario.visitMs, () =>
        resolve(takeAway(world, worker, random)),
      );
    });
    return { ...handle, drained };
  };
  return {
    name: "elastic",
    workersFor: async (job, rows) => localWorkers(job, rows, { cores: 4, memoryBytes: 2 ** 40 }),
    check: async () => {},
    prepare: async () => {},
    run(run) {
      const { generation } = run.context.plan;
      return dispatcherOf(run, () => startWorker(generation)).run();
    },
  };
}

function refusedStart(world: World, random: Random): RefusedStart {
  world.note("a start is refused");
  const retryAfterMs = random.next() * 1000;
  return { refused: "no room", ...(random.next() < 0.5 && { retryAfterMs }) };
}

/** Some places hold until the worker has left, others go before its time is over. */
function takeAway(world: World, worker: Actor, random: Random): DrainNotice {
  world.note(`the place of ${worker.pid} goes away`);
  if (random.next() < 0.4) {
    world.clock.schedule(random.next() * 100, () => {
      if (!worker.hasEnded) world.kill(worker, "with its place");
    });
  }
  return { reason: "its place goes away", graceMs: limits.stopGraceMs };
}
