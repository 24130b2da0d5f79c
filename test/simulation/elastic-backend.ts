import { localWorkers } from "../../src/backends/local/local.ts";
import { limits } from "../../src/foundation/limits.ts";
import { mix32, type Random, randomInteger, seededRandom } from "../../src/foundation/random.ts";
import type { Backend } from "../../src/run/dispatch/backend.ts";
import type { DrainNotice, RefusedStart, WorkerHandle } from "../../src/run/dispatch/dispatch.ts";
import { dispatcherOf } from "../../src/run/dispatch/dispatcher-of.ts";
import type { Actor } from "./actor.ts";
import type { World } from "./world.ts";

const maxPlaces = 4;
/** Drains and changes of size in one call: places that always leave would let no run end. */
const maxChanges = 6;

/**
 * A cluster: it refuses starts for now, takes places away with notice, and grows and shrinks, down
 * to nothing. All by the seed.
 */
export function elasticBackend(world: World, coordinator: Actor): Backend {
  const random = seededRandom(mix32(world.scenario.seed ^ 0xe1a5) ^ coordinator.pid);
  const { clock } = coordinator.process;
  let changes = 0;
  const startWorker = async (generation: number): Promise<WorkerHandle | RefusedStart> => {
    if (random.next() < 0.3) return refusedStart(world, random);
    const handle = world.startWorker(coordinator, generation);
    const worker = world.actors.at(-1)!;
    if (changes >= maxChanges || random.next() < 0.4) return handle;
    changes++;
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
      const dispatcher = dispatcherOf(run, () => startWorker(generation));
      const change = () => {
        changes++;
        // What is over has some places: nothing would grow it any more.
        const least = changes < maxChanges ? 0 : 1;
        const places = least + randomInteger(random, maxPlaces);
        world.note(`the pool of ${coordinator.pid} has ${places} places`);
        dispatcher.resize(places);
        scheduleChange(places === 0);
      };
      let cancel = () => {};
      const scheduleChange = (isNeeded: boolean) => {
        if (!isNeeded && changes >= maxChanges) return;
        cancel = clock.schedule(random.next() * world.scenario.visitMs, change);
      };
      scheduleChange(false);
      return dispatcher.run().finally(() => cancel());
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
