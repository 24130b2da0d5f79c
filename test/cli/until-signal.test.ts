import { PassThrough } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { untilStopped } from "../../src/cli/download-context.ts";
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

/** An action on a terminal that Ctrl-C asks about; what became of it. */
async function asked(act: (send: (signal: StopSignal) => void, stdin: PassThrough) => void) {
  const { io, left, send } = processWith(7);
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const said: string[] = [];
  const say = (word: string) => () => void said.push(word);
  const { exitCode } = await untilSignal(
    { ...io, stdin, isTerminal: true },
    silentLogger,
    async (_, listen) => {
      listen();
      send("SIGINT");
      act(send, stdin);
      await setImmediate();
    },
    { question: "?", stop: say("stop"), leave: say("leave"), interrupt: say("interrupt") },
  );
  return { exitCode, said, left, isOpen: !stdin.destroyed };
}

describe("a question whether the work should stop", () => {
  it("takes a second Ctrl-C for yes, and the third at once", async () => {
    const end = await asked((send) => {
      for (let time = 0; time < 2; time++) send("SIGINT");
    });
    expect(end).toEqual({ exitCode: 130, said: ["stop"], left: ["SIGINT"], isOpen: false });
  });

  it("is answered by no other signal, which acts as without a terminal", async () => {
    for (const [signal, exitCode] of [["SIGTERM", 143] as const, ["SIGHUP", 129] as const]) {
      const end = await asked((send) => send(signal));
      expect(end).toEqual({ exitCode, said: ["interrupt"], left: [], isOpen: false });
    }
  });

  it("means no if standard input ends", async () => {
    const end = await asked((_, stdin) => stdin.end());
    expect(end).toEqual({ exitCode: 130, said: ["leave"], left: [], isOpen: false });
  });

  it("ends with the work, which nothing has stopped then", async () => {
    const end = await asked(() => {});
    expect(end).toEqual({ exitCode: undefined, said: [], left: [], isOpen: false });
  });
});

it("a second signal ends a download at once", async () => {
  const { io, left, send } = processWith(7);
  const codes: number[] = [];
  await untilStopped({ ...io, setExitCode: (code) => void codes.push(code) }, async (context) => {
    send("SIGUSR1");
    expect(left).toEqual([]);
    send("SIGINT");
    context.signal?.throwIfAborted();
  });
  expect(left).toEqual(["SIGINT"]);
  expect(codes).toEqual([138]);
});
