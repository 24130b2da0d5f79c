import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { entryCommand } from "../../../src/entry.ts";
import { isAlive, untilGone } from "../../live-processes.ts";

const holder = fileURLToPath(new URL("./host-holder.ts", import.meta.url));

/** Starts a process that hosts an engine, and gives the pid of the host. */
async function startHolder(...prompt: string[]) {
  const child = spawn(process.execPath, [holder, ...prompt], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(child.stdout!, "data")) as [Buffer];
  return { child, hostPid: Number(line.toString()) };
}

describe("engine host", () => {
  it("leaves when its worker is killed", async () => {
    const { child, hostPid } = await startHolder();
    expect(isAlive(hostPid)).toBe(true);
    child.kill("SIGKILL");
    await untilGone([hostPid]);
  });

  it("leaves when its worker is killed, also out of code that never pauses", async () => {
    const { child, hostPid } = await startHolder("spin");
    const processorTicks = () =>
      Number(readFileSync(`/proc/${hostPid}/stat`, "utf8").split(" ")[13]);
    const before = processorTicks();
    // Half a second of the processor's time: it spins.
    while (processorTicks() < before + 50) await new Promise((resolve) => setTimeout(resolve, 50));
    child.kill("SIGKILL");
    await untilGone([hostPid]);
  });

  it("ignores the signals that a whole process group gets", async () => {
    const { child, hostPid } = await startHolder();
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.kill(hostPid, signal);
    const [line] = (await once(child.stdout!, "data")) as [Buffer];
    expect(line.toString().trim()).toBe("0: still here");
    child.kill("SIGKILL");
    await untilGone([hostPid]);
  });

  it("is found beside the sources", () => {
    const [, path] = entryCommand("engines/host/main", "node");
    expect(path?.endsWith("main.ts")).toBe(true);
  });
});
