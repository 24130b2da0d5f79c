import type { EngineContext } from "../../engines/engine.ts";
import { channelPair } from "../../foundation/channel.ts";
import type { RunDependencies } from "../../run/dependencies.ts";
import { locateRun } from "../../run/directory/locate.ts";
import type { WorkerHandle } from "../../run/dispatch/dispatch.ts";
import type { FromWorker, ToWorker } from "../../run/worker/protocol.ts";
import { serveWorker } from "../../run/worker/serve.ts";

/** What a worker in this process works with. */
export interface InsideWorkerContext {
  dependencies: RunDependencies;
  /** With the functions of this program, which no other process can have. */
  engineContext: EngineContext;
}

/**
 * A worker in this process, for jobs with functions of this program. It talks to its coordinator as
 * any other does; what it lacks is a death of its own.
 */
export function startInsideWorker(
  location: string,
  generation: number,
  { dependencies, engineContext }: InsideWorkerContext,
): WorkerHandle {
  const [near, far] = channelPair<ToWorker, FromWorker>();
  const ended = serveWorker({
    location: locateRun(location),
    generation,
    dependencies,
    engineContext,
    channel: far,
  }).then(() => "it left");
  return { channel: near, kill: () => near.close(), ended };
}
