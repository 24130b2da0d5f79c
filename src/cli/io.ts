import type { Readable, Writable } from "node:stream";
import type { Command } from "commander";
import type { Surroundings } from "../api/surroundings.ts";

/** Signals that ask a command to stop. */
export type StopSignal = "SIGINT" | "SIGTERM" | "SIGHUP" | "SIGUSR1";

/** The exit code of a command that a signal stopped, as a shell counts it. */
export const signalCodes: Readonly<Record<StopSignal, number>> = {
  SIGINT: 130,
  SIGTERM: 143,
  SIGHUP: 129,
  SIGUSR1: 138,
};

/**
 * Everything that a command may use of its process. `main.ts` makes one from the real process;
 * tests make their own.
 */
export interface CliIo extends Surroundings {
  readonly stdin: Readable;
  /** Results and summaries. */
  readonly stdout: Writable;
  /** Progress, logs and errors. */
  readonly stderr: Writable;
  /** True if stderr is a terminal, so that progress may be redrawn in place. */
  readonly isTerminal: boolean;
  /** True if a person reads stdout: on a terminal. */
  readonly isOutputTerminal: boolean;
  /** Width of stderr in characters; requested for each drawing, since a window can change. */
  columns(): number;
  /** Sets the exit code of the process; commands return, they never exit. */
  setExitCode(code: number): void;
  /**
   * Ends the process at once by this signal, as if it had no listener: 130 in a shell for SIGINT.
   */
  leave(signal: StopSignal): void;
  /** Calls `listener` for each stop signal; the returned function ends that. */
  onSignal(listener: (signal: StopSignal) => void): () => void;
  /** Aborted when the reader of stdout is gone (`sluice results DIR | head`). */
  readonly outputClosed: AbortSignal;
  readonly process: ProcessFacts;
}

/** What a command may know about the process and the machine. */
export type ProcessFacts = Surroundings["process"] & {
  readonly nodeVersion: string;
  readonly architecture: string;
};

/**
 * Writes text or bytes and waits until the stream takes more. Once the reader of stdout is gone,
 * writes are dropped; a long command checks `io.outputClosed` to end early.
 */
export async function write(io: CliIo, text: string | Uint8Array): Promise<void> {
  if (io.outputClosed.aborted || io.stdout.write(text)) return;
  await new Promise<void>((resolve) => {
    const done = () => {
      io.stdout.off("drain", done);
      io.outputClosed.removeEventListener("abort", done);
      resolve();
    };
    io.stdout.on("drain", done);
    io.outputClosed.addEventListener("abort", done, { once: true });
  });
}

export function writeJson(io: CliIo, value: unknown): Promise<void> {
  return write(io, `${JSON.stringify(value)}\n`);
}

/** The known part of a command line when a command is declared. */
export interface CommandCall {
  /** The arguments: flags of job keys that are in none of them need no declaration. None = all. */
  args?: readonly string[];
  /** Declares every command with all its flags, outside the program. */
  declareAll(): Promise<Command[]>;
}

/** The words that call a command, such as `sluice model pull`. */
export function commandPath(command: Command): string {
  const names: string[] = [];
  for (let at: Command | null = command; at; at = at.parent) names.unshift(at.name());
  return names.join(" ");
}
