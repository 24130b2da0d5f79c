import { homedir } from "node:os";
import { setImmediate } from "node:timers/promises";
import type { CliIo } from "../../src/cli/io.ts";
import { runCommandLine } from "../../src/cli/program.ts";
import { systemRandom } from "../../src/foundation/random.ts";
import { stubIo } from "./io-stub.ts";

/** Calls a command as a shell does; workers are real processes. */
export async function call(workingDirectory: string, ...args: string[]) {
  const process = { ...stubIo().io.process, executable: globalThis.process.execPath };
  return await carriedOut(args, { workingDirectory, columns: () => 200, process });
}

/**
 * Calls a command in this process and with its variables, and ends like a process.
 *
 * @param environment beside ours.
 */
export async function callHere(
  args: readonly string[],
  workingDirectory: string,
  environment: Readonly<Record<string, string>> = {},
) {
  const { pid, execPath: executable, platform } = globalThis.process;
  const process = { ...stubIo().io.process, pid, executable, platform, userDirectory: homedir() };
  const { exitCode, stdout, stderr } = await carriedOut(args, {
    ...{ workingDirectory, process, random: systemRandom, columns: () => 100 },
    environment: { ...globalThis.process.env, ...environment },
  });
  return { code: exitCode ?? 0, signal: null, stdout, stderr };
}

async function carriedOut(args: readonly string[], changes: Partial<CliIo>) {
  const { io, written, state } = stubIo(changes);
  await runCommandLine(args, io, { version: "1" });
  await setImmediate();
  return { ...written, exitCode: state.exitCode };
}
