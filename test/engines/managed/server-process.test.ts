import { describe, expect, it } from "vitest";
import {
  maxServerLineChars,
  startServerProcess,
} from "../../../src/engines/managed/server-process.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { limits } from "../../../src/foundation/limits.ts";

const start = (program: string) =>
  startServerProcess({
    command: [process.execPath, "-e", program],
    environment: process.env,
    redact: (text) => text.replaceAll("secret", "[redacted]"),
    clock: systemClock,
  });

describe("startServerProcess", () => {
  it("keeps the last lines of both streams, clean", async () => {
    const program = `
      process.stdout.write("\\u001b[31mred\\u001b[0m secret\\r10%\\r20%\\n\\n");
      setTimeout(() => process.stderr.write("no end of line"), 50);`;
    const server = start(program);
    expect(await server.ended).toEqual({ how: "exit code 0", code: 0 });
    expect(server.isRunning).toBe(false);
    expect(server.lines).toEqual(["red [redacted]", "10%", "20%", "no end of line"]);
  });

  it("keeps no more than it may", async () => {
    const line = "i, 'x'.repeat(985) + 'secret'.repeat(1000)";
    const server = start(`for (let i = 0; i < 1000; i++) console.log(${line})`);
    await server.ended;
    expect(server.lines).toHaveLength(limits.maxHostOutputLines);
    expect(server.lines.at(-1)).toMatch(/^999 x+\[redacted\]/);
    const longest = Math.max(...server.lines.map((line) => line.length));
    expect(longest).toBe(maxServerLineChars);
  });

  it("asks it to leave, and waits until it has", async () => {
    const program = `
      const timer = setInterval(() => {}, 1000);
      process.on("SIGTERM", () => {
        console.log("leaving");
        process.exitCode = 4;
        clearInterval(timer);
      });
      console.log("up");`;
    const server = start(program);
    while (server.lines.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    await server.stop();
    expect(await server.ended).toMatchObject({ code: 4 });
    expect(server.lines).toEqual(["up", "leaving"]);
  });

  it("ends it at once", async () => {
    const server = start("setInterval(() => {}, 1000)");
    server.kill();
    await server.ended;
    expect(server.isRunning).toBe(false);
  });

  it("says that it cannot be started", async () => {
    const server = startServerProcess({
      command: ["/no/such/program"],
      environment: {},
      redact: (text) => text,
      clock: systemClock,
    });
    expect((await server.ended).code).not.toBe(0);
    expect(server.lines.join("\n")).toContain("/no/such/program");
  });
});
