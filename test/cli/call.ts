import { setImmediate } from "node:timers/promises";
import { runCommandLine } from "../../src/cli/program.ts";
import { stubIo } from "./io-stub.ts";

/** Calls a command as a shell does; workers are real processes. */
export async function call(workingDirectory: string, ...args: string[]) {
  const stub = stubIo();
  const process = { ...stub.io.process, executable: globalThis.process.execPath };
  const io = { ...stub.io, workingDirectory, columns: () => 200, process };
  await runCommandLine(args, io, { version: "1" });
  await setImmediate();
  return { ...stub.written, exitCode: stub.state.exitCode };
}
