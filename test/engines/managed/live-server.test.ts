import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../../src/engines/engine.ts";
import { LiveServer } from "../../../src/engines/managed/live-server.ts";
import { ServerClient } from "../../../src/engines/managed/server-client.ts";
import type { ServerProcess } from "../../../src/engines/managed/server-process.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { type FakeServer, startFakeServer } from "../../../src/testing/fake-server.ts";
import { virtualClock } from "../../fakes/virtual-clock.ts";

const lost = new SluiceError("CONNECTION_LOST");
let http: FakeServer;
let healthChecks = 0;
let status = 200;

beforeEach(async () => {
  [healthChecks, status] = [0, 200];
  http = await startFakeServer({
    behave() {
      healthChecks++;
      return { kind: "status", status };
    },
  });
});

afterEach(() => http.close());

/** A live server whose process ends when it is killed, or when the test says so. */
function newServer() {
  const ended = Promise.withResolvers<{ how: string; code: null }>();
  const end = (how: string) => ended.resolve({ how, code: null });
  const calls: string[] = [];
  const process: ServerProcess = {
    lines: ["the last line"],
    ended: ended.promise,
    isRunning: true,
    async stop() {},
    kill() {
      calls.push("kill");
      end("signal SIGKILL");
    },
  };
  const engine = { close: async () => void calls.push("close") } as unknown as Engine;
  const client = new ServerClient(`http://127.0.0.1:${http.port}`, "key");
  const clock = virtualClock({ isBusy: () => http.held > 0 || healthChecks === 0 });
  const facts = { modelName: "m", version: null };
  const server = new LiveServer(facts, engine, process, client, clock);
  void ended.promise.then(({ how }) => server.die(how));
  return { server, end, calls, clock };
}

describe("a live server", () => {
  it("that is well is not blamed for a request that failed", async () => {
    const { server } = newServer();
    expect(await server.deathBehind(lost)).toBeUndefined();
    expect(await server.deathBehind(new SluiceError("SERVER_ERROR"))).toBeUndefined();
    expect(healthChecks).toBe(2);
  });

  it("is not even looked at where a failure is of the request alone", async () => {
    const { server } = newServer();
    expect(await server.deathBehind(new SluiceError("REQUEST_REFUSED"))).toBeUndefined();
    expect(await server.deathBehind(new Error("anything"))).toBeUndefined();
    expect(healthChecks).toBe(0);
  });

  it("that is dead says how it ended, with its last line", async () => {
    const { server, end, calls } = newServer();
    end("exit code 9");
    const death = await server.deathBehind(lost);
    expect(death).toMatchObject({ code: "ENGINE_DIED", scope: "engine" });
    expect(death?.message).toContain("exit code 9; its last line: the last line");
    expect(calls).toContain("close");
  });

  it("that is ill and ends by itself is waited for", async () => {
    status = 503;
    const { server, end, calls } = newServer();
    const asked = server.deathBehind(lost);
    end("exit code 1");
    expect((await asked)?.message).toContain("exit code 1");
    expect(calls.filter((call) => call === "close")).toHaveLength(1);
  });

  it("that is ill and does not end is ended, once for all who ask", async () => {
    status = 503;
    const { server, calls, clock } = newServer();
    const asked = Promise.all([server.deathBehind(lost), server.deathBehind(lost)]);
    const deaths = await clock.run(asked);
    expect(deaths.map((death) => death?.code)).toEqual(["ENGINE_DIED", "ENGINE_DIED"]);
    expect(calls).toEqual(["kill", "close"]);
    expect(healthChecks).toBe(1);
  });
});
