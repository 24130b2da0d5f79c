// The one place where the process meets the program: all other code gets a `CliIo`.
import { homedir } from "node:os";
import { storeError } from "../data/storage/local-errors.ts";
import { softwareVersion } from "../entry.ts";
import { systemClock } from "../foundation/clock.ts";
import { exitCodes } from "../foundation/error-table.ts";
import { asSluiceError } from "../foundation/errors.ts";
import { systemRandom } from "../foundation/random.ts";
import { type CliIo, type StopSignal, signalCodes } from "./io.ts";
import { runCommandLine } from "./program.ts";
import { report } from "./report.ts";

const stopSignals: readonly StopSignal[] = ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"];

function processIo(): CliIo {
  const outputClosed = new AbortController();
  let isOutputLost = false;
  const setExitCode = (code: number) => {
    // Lost output is an error, however the command ends.
    process.exitCode = isOutputLost ? exitCodes.storage : code;
  };
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (outputClosed.signal.aborted) return;
    outputClosed.abort(error);
    if (error.code === "EPIPE") return;
    isOutputLost = true;
    report(asSluiceError(storeError(error, "standard output")), {
      stderr: process.stderr,
      setExitCode,
    });
  });
  // A run does not stop because its progress has no reader.
  process.stderr.on("error", () => {});
  return {
    // Access to stdin opens it, which a command that does not read it must not do.
    get stdin() {
      return process.stdin;
    },
    stdout: process.stdout,
    stderr: process.stderr,
    environment: process.env,
    workingDirectory: process.cwd(),
    isTerminal: process.stderr.isTTY === true && process.env.TERM !== "dumb",
    isOutputTerminal: process.stdout.isTTY === true && process.env.TERM !== "dumb",
    columns: () => process.stderr.columns || process.stdout.columns || 100,
    clock: systemClock,
    random: systemRandom,
    setExitCode,
    leave(signal) {
      // The kernel keeps a container's first process from such an end.
      if (process.pid === 1) process.exit(signalCodes[signal]);
      process.removeAllListeners(signal);
      process.kill(process.pid, signal);
    },
    onSignal(listener) {
      for (const signal of stopSignals) process.on(signal, listener);
      return () => {
        for (const signal of stopSignals) process.off(signal, listener);
      };
    },
    outputClosed: outputClosed.signal,
    process: {
      pid: process.pid,
      executable: process.execPath,
      nodeVersion: process.versions.node,
      platform: process.platform,
      architecture: process.arch,
      userDirectory: homedir(),
      kill: () => void process.kill(process.pid, "SIGKILL"),
    },
  };
}

void runCommandLine(process.argv.slice(2), processIo(), { version: softwareVersion() });
