import { describe, expect, it } from "vitest";
import type { StopSignal } from "../../src/cli/io.ts";
import { untilSignal } from "../../src/cli/until-signal.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { stubIo } from "./io-stub.ts";

/** A process of this number, with what listens to its signals. */
function processWith(pid: number) {
  const { io } = stubIo({});
  const listeners = new Set<(signal: StopSignal) => void>();
  const left: StopSignal[] = [];
  const ownIo = {
    ...io,
    process: { ...io.process, pid },
    leave: (signal: StopSignal) => void left.push(signal),
    onSignal(listener: (signal: StopSignal) => void) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const send = (signal: StopSignal) => {
    for (const listener of listeners) listener(signal);
  };
  return { io: ownIo, listeners, left, send };
}

describe("an action until a signal", () => {
  it("leaves the first signal to the process until there is something to stop", async () => {
    const { io, listeners, left, send } = processWith(7);
    const { exitCode } = await untilSignal(io, silentLogger, async (signal, listen) => {
      expect(listeners.size).toBe(0);
      listen();
      listen();
      expect(listeners.size).toBe(1);
      send("SIGTERM");
      expect(signal.reason).toMatchObject({ code: "RUN_CANCELED" });
      expect(left).toEqual([]);
      send("SIGINT");
      expect(left).toEqual(["SIGINT"]);
    });
    expect(exitCode).toBe(143);
    expect(listeners.size).toBe(0);
  });

  it("hears each signal as a container's first process, which none would end", async () => {
    const { io, send } = processWith(1);
    const { exitCode } = await untilSignal(io, silentLogger, async () => send("SIGINT"));
    expect(exitCode).toBe(130);
  });
});
