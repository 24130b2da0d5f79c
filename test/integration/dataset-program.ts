import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ProcessEnd } from "../chaos/sluice-process.ts";
import { sluiceModule } from "../sluice-program.ts";

/** Points `sluice` at the package: a program runs wherever it lies, without an installation. */
const hook = join(mkdtempSync(join(tmpdir(), "sluice-hook-")), "hook.mjs");
const faces = { sluice: sluiceModule };
writeFileSync(
  hook,
  `import { registerHooks } from "node:module";
const faces = ${JSON.stringify(faces)};
registerHooks({
  resolve: (name, context, next) =>
    name in faces ? { url: faces[name], shortCircuit: true } : next(name, context),
});
`,
);

/** A program of a user's that is running. */
export interface RunningProgram {
  pid: number;
  ended: Promise<ProcessEnd>;
}

/** Starts a program that imports `sluice`, in a process group of its own. */
export function startProgram(
  file: string,
  parameters: readonly string[] = [],
  environment: Readonly<Record<string, string>> = {},
): RunningProgram {
  const child = spawn(process.execPath, ["--import", hook, file, ...parameters], {
    env: { ...process.env, NODE_NO_WARNINGS: "1", ...environment },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const ended = new Promise<ProcessEnd>((resolve) => {
    child.once("close", (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
  return { pid: child.pid!, ended };
}

/** Runs such a program to its end. */
export function runCommandLine(...start: Parameters<typeof startProgram>): RunningProgram["ended"] {
  return startProgram(...start).ended;
}
