import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { systemProcesses } from "../../src/api/process-table.ts";

const { pid, platform } = process;

describe("systemProcesses", () => {
  it("sees processes of its own kind, and when they have ended", async () => {
    const own = systemProcesses(pid, platform);
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    await once(child, "spawn");
    // What the child would say of itself, but for its start: it shares all else with this process.
    const { startTime } = systemProcesses(child.pid!, platform).self();
    const identity = { ...own.self(), pid: child.pid!, startTime };
    expect([own.look(own.self()), own.look(identity)]).toEqual(["alive", "alive"]);
    expect(own.look({ ...identity, startTime: "1" })).toBe("dead");
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(own.look(identity)).toBe("dead");
  });

  it.each([
    { host: "another" },
    { bootId: "another" },
    { pidSpace: "pid:[1]" },
    { bootId: "" },
    { pidSpace: "" },
    { startTime: "" },
  ])("cannot tell whether one lives that differs by %j", (changes) => {
    const own = systemProcesses(pid, platform);
    expect(own.look({ ...own.self(), ...changes })).toBe("elsewhere");
    expect(own.look({ ...own.self(), pid: 2 ** 22 + 1, ...changes })).toBe("elsewhere");
  });

  it("knows the leaders that ended in this process from all calls", () => {
    const { ended } = systemProcesses(pid, platform);
    expect(ended).toBeDefined();
    expect(systemProcesses(pid, platform).ended).toBe(ended);
  });

  it("leaves processes of older versions, which name no namespace, to their heartbeats", () => {
    const own = systemProcesses(pid, platform);
    const { pidSpace: _, ...older } = own.self();
    expect(own.look(older)).toBe("elsewhere");
  });
});
