import { PassThrough } from "node:stream";
import type { CliIo, StopSignal } from "../../src/cli/io.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import { seededRandom } from "../../src/foundation/random.ts";

/** A `CliIo` that keeps what is written to it. */
export function stubIo(changes: Partial<CliIo> = {}) {
  const written = { stdout: "", stderr: "" };
  const sink = (name: "stdout" | "stderr") => {
    const stream = new PassThrough();
    stream.on("data", (chunk: Buffer) => {
      written[name] += chunk.toString();
    });
    return stream;
  };
  const state: { exitCode: number | undefined } = { exitCode: undefined };
  const closed = new AbortController();
  const listeners = new Set<(signal: StopSignal) => void>();
  const io: CliIo = {
    stdin: new PassThrough(),
    stdout: sink("stdout"),
    stderr: sink("stderr"),
    environment: {},
    workingDirectory: "/",
    isTerminal: false,
    isOutputTerminal: false,
    columns: () => 80,
    clock: systemClock,
    random: seededRandom(1),
    leave: () => {},
    setExitCode(code) {
      state.exitCode = code;
    },
    onSignal(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    outputClosed: closed.signal,
    process: {
      pid: 1,
      executable: "node",
      nodeVersion: "24.0.0",
      platform: "linux",
      architecture: "x64",
      userDirectory: "/home/me",
      kill() {
        throw new Error("no command under test ends this process");
      },
    },
    ...changes,
  };
  return { io, written, state, closeOutput: () => closed.abort() };
}
