import { PassThrough, Writable } from "node:stream";
import type { CommandModule } from "../../src/cli/command.ts";
import type { CliIo, StopSignal } from "../../src/cli/io.ts";
import { runCommandLine } from "../../src/cli/program.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import { seededRandom } from "../../src/foundation/random.ts";

/** What one command line did. */
export interface CommandOutcome {
  stdout: string;
  stderr: string;
  code: number;
}

/** How a command line is run. */
export interface CommandSetup {
  environment: Record<string, string>;
  workingDirectory: string;
  isTerminal?: boolean;
  /** Given what sends a stop signal to the command. */
  onStart?: (stop: (signal: StopSignal) => void) => void;
}

/** Runs `sluice NAME …` in this process with a terminal of its own. */
export async function runOne(
  name: string,
  module: CommandModule,
  args: readonly string[],
  setup: CommandSetup,
): Promise<CommandOutcome> {
  const outcome: CommandOutcome = { stdout: "", stderr: "", code: 0 };
  const sink = (stream: "stdout" | "stderr") =>
    new Writable({
      write(chunk, _encoding, done) {
        outcome[stream] += String(chunk);
        done();
      },
    });
  const listeners = new Set<(signal: StopSignal) => void>();
  setup.onStart?.((signal) => {
    for (const listener of listeners) listener(signal);
  });
  const io: CliIo = {
    stdin: new PassThrough(),
    stdout: sink("stdout"),
    stderr: sink("stderr"),
    environment: setup.environment,
    workingDirectory: setup.workingDirectory,
    isOutputTerminal: false,
    isTerminal: setup.isTerminal ?? false,
    columns: () => 80,
    clock: systemClock,
    random: seededRandom(1),
    leave: () => {},
    setExitCode(code) {
      outcome.code = code;
    },
    onSignal(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    outputClosed: new AbortController().signal,
    process: {
      pid: process.pid,
      executable: process.execPath,
      nodeVersion: process.versions.node,
      platform: process.platform,
      architecture: process.arch,
      userDirectory: setup.workingDirectory,
      kill: () => {},
    },
  };
  const commands = [{ name, summary: name, load: async () => module }];
  await runCommandLine([name, ...args], io, { version: "0", commands });
  return outcome;
}
