// The one place where the process meets the program: everything else is given a `CliIo`.
import { homedir } from "node:os";
import { softwareVersion } from "../api/software-version.ts";
import { systemClock } from "../foundation/clock.ts";
import { systemRandom } from "../foundation/random.ts";
import type { CliIo, StopSignal } from "./io.ts";
import { runProgram } from "./program.ts";

const stopSignals: readonly StopSignal[] = ["SIGINT", "SIGTERM", "SIGHUP"];

function processIo(): CliIo {
  const outputClosed = new AbortController();
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    outputClosed.abort(error);
  });
  // Progress nobody reads is no reason to stop a run.
  process.stderr.on("error", () => {});
  return {
    // Touching stdin opens it, which a command that does not read it must not do.
    get stdin() {
      return process.stdin;
    },
    stdout: process.stdout,
    stderr: process.stderr,
    environment: process.env,
    workingDirectory: process.cwd(),
    isTerminal: process.stderr.isTTY === true && process.env.TERM !== "dumb",
    columns: () => process.stderr.columns || 100,
    clock: systemClock,
    random: systemRandom,
    setExitCode(code) {
      process.exitCode = code;
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

await runProgram(process.argv.slice(2), processIo(), { version: softwareVersion() });
