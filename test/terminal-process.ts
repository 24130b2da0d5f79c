import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { sluiceProgram } from "./sluice-program.ts";

const { stdout } = spawnSync("script", ["--version"], { encoding: "utf8" });

/** Why nothing can be started on a terminal here; undefined if it can. `script` of BSD differs. */
export const missingTerminals: string | undefined = stdout?.includes("util-linux")
  ? undefined
  : "script of util-linux makes the terminal";

/** Starts `sluice` on a terminal of its own, on which a person types. */
export function startOnTerminal(
  parameters: readonly string[],
  directory: string,
  environment: Readonly<Record<string, string | undefined>> = process.env,
) {
  const words = [process.execPath, sluiceProgram, ...parameters].map((word) => `'${word}'`);
  const child = spawn("script", ["-qec", words.join(" "), "/dev/null"], {
    cwd: directory,
    env: { ...environment, TERM: "xterm" },
  });
  let said = "";
  child.stdout.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  return {
    ended: once(child, "exit").then(([code]) => ({ code: code as number | null, said })),
    said: () => said,
    type: (text: string) => child.stdin.write(text),
  };
}

/** What Ctrl-C types. */
export const interrupt = "\u0003";
