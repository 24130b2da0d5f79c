import { describe, expect, it } from "vitest";
import { type HostStart, RayBridge } from "../../../src/backends/ray/bridge.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";

/**
 * A bridge of a few lines, for orders of events that a real cluster does not show on demand. It
 * answers each message with what the test says.
 */
function bridge(answer: string, command = [process.execPath, "-e", program(answer)]) {
  const made = new RayBridge({
    ...{ command, environment: process.env, clock: systemClock, logger: silentLogger },
  });
  const open = () =>
    made.open({
      ...{ software: "auto", runtimeEnv: {}, staging: "/s", nodePackage: "n", nodes: [] },
      silenceSeconds: 3,
    });
  return { bridge: made, open };
}

const program = (answer: string) => `
  const say = (message) => console.log(JSON.stringify(message));
  const ready = { type: "cluster-ready", ray: "2.60.0", nodes: [{ id: "a", alive: true }, { id: "b", alive: false }] };
  require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const message = JSON.parse(line);
    const { host } = message;
    ${answer}
  });`;

const start: HostStart = {
  resources: { cpu: 1, gpu: 0, custom: {} },
  ...{ strategy: "SPREAD", avoid: [], labels: {}, arguments: [], environment: {}, directory: "/" },
};

describe("the bridge", () => {
  it("tells its nodes, starts hosts and passes lines on, whatever else is written", async () => {
    const made = bridge(`
      if (message.type === "cluster-open") { console.log("a warning of Ray"); say(ready); }
      if (message.type === "host-start") {
        say({ type: "lines", host, lines: ['{"type":"worker-beat"}'] });
        say({ type: "host-ready", host, node: "a", address: "10.0.0.1" });
      }
      if (message.type === "lines") say({ type: "lines", host, lines: message.lines });
      if (message.type === "host-kill") say({ type: "host-end", host, reason: "it was ended", isLost: false });
    `);
    expect(await made.open()).toBe("2.60.0");
    expect(made.bridge.nodes.map(({ id }) => id)).toEqual(["a"]);
    const host = made.bridge.start(start);
    expect(await host.started).toMatchObject({ node: "a" });
    const heard: unknown[] = [];
    const two = new Promise<void>((resolve) => {
      host.channel.onMessage((message) => {
        if (heard.push(message) === 2) resolve();
      });
    });
    host.channel.send({ type: "task-cancel", task: 1 });
    await two;
    expect(heard).toEqual([{ type: "worker-beat" }, { type: "task-cancel", task: 1 }]);
    host.kill();
    expect(await host.ended).toMatchObject({ reason: "it was ended", isLost: false });
    made.bridge.close();
    expect(await made.bridge.ended).toBeUndefined();
  });

  it("takes all hosts with it when it dies, and says so", async () => {
    const made = bridge(`
      if (message.type === "cluster-open") say(ready);
      if (message.type === "host-start") { console.error("Ray is gone"); process.exit(9); }
    `);
    await made.open();
    const host = made.bridge.start(start);
    expect(await host.ended).toMatchObject({ isLost: true });
    expect(await host.started).toHaveProperty("refused");
    const error = await made.bridge.ended;
    expect(error).toMatchObject({ code: "RAY_BRIDGE_DIED", exitCode: 75 });
    expect(error!.message).toMatch(/exit code 9/);
  });

  it("says how a worker ended with its last line, and nothing of lost ones", async () => {
    const made = bridge(`
      if (message.type === "cluster-open") say(ready);
      if (message.type === "host-start") {
        say({ type: "logs", host, lines: ["Error: no memory", "    at x (y.js:1)", ""] });
        say({ type: "host-end", host, reason: "left with code 1", isLost: false });
      }
    `);
    await made.open();
    const { reason } = await made.bridge.start(start).ended;
    expect(reason).toBe("left with code 1: Error: no memory");
    made.bridge.close();
  });

  it("ends a conversation that is not one", async () => {
    const made = bridge(`
      if (message.type === "cluster-open") say(ready);
      if (message.type === "host-start") say({ type: "lines", host, lines: ["no object"] });
    `);
    await made.open();
    const host = made.bridge.start(start);
    const closed = new Promise<Error | undefined>((resolve) => host.channel.onClose(resolve));
    host.channel.onMessage(() => {});
    expect(await closed).toMatchObject({ code: "PROTOCOL" });
    made.bridge.close();
  });

  it("says why it cannot connect, and what is missing", async () => {
    const failing = (problem: string) =>
      bridge(`say({ type: "cluster-failed", problem: "${problem}", reason: "because" });`);
    for (const [problem, code] of [
      ["missing", "RAY_MISSING"],
      ["unreachable", "RAY_UNREACHABLE"],
      ["setup", "RAY_SETUP_FAILED"],
    ]) {
      const made = failing(problem!);
      await expect(made.open()).rejects.toMatchObject({ code });
      made.bridge.close();
    }
    const absent = bridge("", ["/nowhere/python3", "-m", "sluice_ray"]);
    await expect(absent.open()).rejects.toMatchObject({ code: "RAY_MISSING" });
  });
});
