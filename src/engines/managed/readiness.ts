import { type Clock, sleep } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { Logger } from "../../foundation/logger.ts";
import { EndedEarly } from "../restarting.ts";
import type { ServerClient } from "./server-client.ts";
import type { ServerFacts, ServerLaunch } from "./server-launch.ts";
import type { ServerProcess } from "./server-process.ts";

/** Between two looks at a server that is loading. */
const serverHealthIntervalMs = 200;

/** Between two lines of progress of a server that is loading. */
const serverProgressIntervalMs = 5000;

/** A server that was started and does not answer yet. */
export interface LoadingServer {
  launch: Pick<ServerLaunch, "name" | "readFacts" | "loadTimeoutMs">;
  process: ServerProcess;
  client: ServerClient;
  clock: Clock;
  logger: Logger;
  /** Gives the waiting up. */
  signal: AbortSignal;
}

/** Another port may do, or another moment. */
export class ServerEndedEarly extends EndedEarly {
  /** Whether something else has its port. */
  readonly isPortTaken: boolean;

  constructor(name: string, how: string, lines: readonly string[]) {
    super(`${name}: ${how}`, lines, "look at its last lines, and at model.args");
    this.isPortTaken = lines.some((line) => portTaken.test(line));
  }
}

const portTaken = /address already in use|EADDRINUSE|couldn't bind|could not bind|failed to bind/i;

/**
 * Waits until a server answers, showing its last line now and then, and gives what it says of
 * itself.
 *
 * @throws ServerEndedEarly; SluiceError `ENGINE_START_FAILED` after `loadTimeoutMs`; the signal's
 *   reason.
 */
export async function untilReady(server: LoadingServer): Promise<ServerFacts> {
  const { launch, process, client, clock, logger, signal } = server;
  const startedMs = clock.monotonic();
  let shownMs = startedMs;
  for (;;) {
    signal.throwIfAborted();
    if (!process.isRunning) {
      const { how } = await process.ended;
      throw new ServerEndedEarly(launch.name, how, process.lines);
    }
    const facts = (await client.health()) === "well" ? await launch.readFacts(client) : undefined;
    // Whoever answered on this port, it was not ours if that has ended meanwhile.
    if (facts !== undefined && process.isRunning) return facts;
    const nowMs = clock.monotonic();
    const seconds = Math.round((nowMs - startedMs) / 1000);
    const line = process.lines.at(-1) ?? "nothing written yet";
    if (nowMs - startedMs >= launch.loadTimeoutMs) {
      const detail = `${launch.name} is not ready after ${seconds} s; its last line: ${line}`;
      const hint = "raise model.loadTimeoutMs, or look at its last line";
      throw new SluiceError("ENGINE_START_FAILED", detail, { hint });
    }
    if (nowMs - shownMs >= serverProgressIntervalMs) {
      shownMs = nowMs;
      logger.log("info", `${launch.name} is loading, ${seconds} s: ${line}`);
    }
    await sleep(clock, serverHealthIntervalMs, signal);
  }
}
