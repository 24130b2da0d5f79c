import { describe, expect, it } from "vitest";
import { startHostProcess } from "../../../src/engines/host/process.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { limits } from "../../../src/foundation/limits.ts";

function start(script: string, program = process.execPath) {
  const lines: string[] = [];
  const host = startHostProcess({
    command: [program, "-e", script],
    environment: process.env,
    onLine: (line) => lines.push(line),
    clock: systemClock,
  });
  return { host, lines };
}

describe("startHostProcess", () => {
  it("reads both streams as lines and keeps the last for the end", async () => {
    const { host, lines } = start(
      "for (let n = 0; n < 90; n++) console.log(n); console.error('bye'); process.exitCode = 3",
    );
    const end = await host.ended;
    expect(end.how).toBe("exit code 3");
    expect(lines).toHaveLength(91);
    expect(end.lines).toHaveLength(limits.maxHostOutputLines);
  });

  it("says which signal ended it", async () => {
    const { host } = start("setInterval(() => {}, 1000)");
    host.kill();
    expect((await host.ended).how).toBe("signal SIGKILL");
  });

  it("says why a program cannot be started", async () => {
    const { how, lines } = await start("", "/no/such/program").host.ended;
    expect([how, lines]).toEqual(["exit code 127", [expect.stringContaining("not found")]]);
  });

  it("notices the end although a grandchild holds the streams open", async () => {
    const { host } = start(`
      const child = require("node:child_process").spawn("sleep", ["5"], { stdio: "inherit" });
      child.unref();
      console.log(child.pid);
    `);
    const { lines } = await host.ended;
    expect(process.kill(Number(lines[0]), "SIGKILL")).toBe(true);
  });
});
