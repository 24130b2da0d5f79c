import { describe, expect, it } from "vitest";
import type { Host, HostStart, RayNode } from "../../../src/backends/ray/bridge.ts";
import { HostPool, maxWaitingHosts } from "../../../src/backends/ray/host-pool.ts";
import { channelPair } from "../../../src/foundation/channel.ts";
import type { SluiceError } from "../../../src/foundation/errors.ts";
import type { DrainNotice } from "../../../src/run/dispatch/dispatch.ts";
import { jobSchema } from "../../../src/run/job/schema.ts";
import type { RunContext } from "../../../src/run/run-context.ts";
import type { RunEvent } from "../../../src/run/status/events.ts";
import type { FromWorker, ToWorker } from "../../../src/run/worker/protocol.ts";
import { handClock } from "../../hand-clock.ts";
import { settled } from "../../run/scripted-engine.ts";

interface FakeHost {
  start: HostStart;
  isKilled: boolean;
  heard: ToWorker[];
  place(node: string): void;
  refuse(reason: string, more?: { isFinal?: boolean; node?: string }): void;
  end(reason: string, more?: { isLost?: boolean; suspect?: string }): Promise<void>;
  say(message: object): Promise<void>;
}

const nodeOf = (id: string, more: Partial<RayNode> = {}): RayNode => ({
  ...{ id, address: `10.0.0.${id}`, alive: true, labels: {}, drainsAt: null },
  resources: { CPU: 4 },
  ...more,
});

/**
 * A pool on a cluster of which the test says what happens: a real one, which test/integration
 * starts, is never full, lost and slow in the order that is wanted.
 */
function pool(changes: object = {}) {
  const { clock, pass } = handClock();
  const hosts: FakeHost[] = [];
  const events: RunEvent[] = [];
  const faults: SluiceError[] = [];
  let tell: (nodes: readonly RayNode[]) => void = () => {};
  const nodes = [nodeOf("1"), nodeOf("2")];
  const job = jobSchema.parse({
    ...{ input: "s3://b/in", output: "s3://b/out", prompt: "p", backend: "ray" },
    ...{ model: { engine: "fake" }, ...changes },
  });
  const made = new HostPool({
    bridge: {
      nodes,
      onNodes(listener) {
        tell = listener;
      },
      start(start) {
        const { host, fake } = fakeHost(start);
        hosts.push(fake);
        return host;
      },
    },
    run: { job, context: { clock } as RunContext, onEvent: (event) => void events.push(event) },
    worker: { arguments: ["worker"], environment: {}, directory: "/" },
    onFault: (error) => void faults.push(error),
  });
  const notices = () => events.flatMap((event) => (event.type === "notice" ? event.message : []));
  return { pool: made, hosts, pass, faults, notices, tell: (each: RayNode[]) => tell(each) };
}

function fakeHost(start: HostStart): { host: Host; fake: FakeHost } {
  const started = Promise.withResolvers<Awaited<Host["started"]>>();
  const ended = Promise.withResolvers<Awaited<Host["ended"]>>();
  const [near, far] = channelPair<ToWorker, FromWorker>();
  const heard: ToWorker[] = [];
  far.onMessage((message) => void heard.push(message));
  const fake: FakeHost = {
    ...{ start, heard, isKilled: false },
    place: (node) => started.resolve({ node, address: node }),
    refuse: (refused, more) => started.resolve({ refused, ...more }),
    async end(reason, { isLost = false, ...more } = {}) {
      started.resolve({ refused: reason, isFinal: false });
      ended.resolve({ reason, isLost, ...more });
      await settled();
    },
    async say(message) {
      far.send(message as FromWorker);
      await settled();
    },
  };
  const kill = () => {
    fake.isKilled = true;
    void fake.end("it was ended");
  };
  return { host: { started: started.promise, ended: ended.promise, channel: near, kill }, fake };
}

const wanted = () => new AbortController();

describe("a pool of hosts", () => {
  it("waits for room as long as its worker is wanted", async () => {
    const { pool: made, hosts, pass, notices } = pool({ workers: { cpu: 3 } });
    const waiting = made.start(wanted().signal);
    pass(9000);
    expect(notices()).toEqual([]);
    pass(1000);
    expect(notices()).toEqual([
      "1 worker waits for room on the cluster, each for 3 CPUs; 0 are placed",
    ]);
    hosts[0]!.place("1");
    expect(await waiting).toHaveProperty("channel");
    const other = wanted();
    const unneeded = made.start(other.signal);
    other.abort();
    expect(await unneeded).toEqual({ refused: "it is not needed any more" });
    expect(hosts[1]!.isKilled).toBe(true);
  });

  it("refuses more starts than an autoscaler needs to see", async () => {
    const { pool: made, hosts } = pool();
    for (let each = 0; each < maxWaitingHosts; each++) void made.start(wanted().signal);
    expect(await made.start(wanted().signal)).toMatchObject({ retryAfterMs: 1000 });
    expect(hosts).toHaveLength(maxWaitingHosts);
  });

  it("avoids a node that lost a host, also for those that wait, until Ray knows more", async () => {
    const { pool: made, hosts, pass } = pool();
    const first = made.start(wanted().signal);
    hosts[0]!.place("1");
    const handle = await first;
    const second = made.start(wanted().signal);
    expect(hosts[1]!.start.avoid).toEqual([]);
    await hosts[0]!.end("its node cannot be reached", { isLost: true, suspect: "1" });
    expect(await (handle as { lost: Promise<string> }).lost).toBe("its node cannot be reached");
    expect(hosts[1]!.isKilled).toBe(true);
    expect(hosts[2]!.start.avoid).toEqual(["1"]);
    hosts[2]!.place("2");
    expect(await second).toHaveProperty("channel");
    for (let second = 0; second < 70; second++) pass(1000);
    void made.start(wanted().signal);
    expect(hosts[3]!.start.avoid).toEqual([]);
  });

  it("does not blame the machine for a worker that ends by itself", async () => {
    const { pool: made, hosts } = pool();
    const start = made.start(wanted().signal);
    hosts[0]!.place("1");
    const handle = (await start) as { lost: Promise<string>; ended: Promise<string> };
    await hosts[0]!.end("left with code 1");
    const first = await Promise.race([handle.lost.then(() => "lost"), handle.ended]);
    expect(first).toBe("left with code 1");
  });

  it("passes on that a node will be taken away, with time that fits before it", async () => {
    const { pool: made, hosts, tell } = pool();
    const start = made.start(wanted().signal);
    hosts[0]!.place("1");
    const { drained } = (await start) as { drained: Promise<DrainNotice> };
    tell([nodeOf("1", { drainsAt: 8000 }), nodeOf("2")]);
    expect(await drained).toEqual({ reason: "Ray takes node 10.0.0.1 away", graceMs: 3000 });
  });

  it("ends a worker at once that has not begun, and asks one that has", async () => {
    const { pool: made, hosts } = pool();
    const handles = [];
    for (const at of [0, 1]) {
      const start = made.start(wanted().signal);
      hosts[at]!.place("1");
      const handle = (await start) as Pick<Host, "channel">;
      handle.channel.onMessage(() => {});
      handles.push(handle);
    }
    await hosts[1]!.say({ type: "worker-ready" });
    for (const { channel } of handles) channel.send({ type: "worker-stop", graceMs: 1 });
    await settled();
    expect(hosts.map(({ isKilled }) => isKilled)).toEqual([true, false]);
    expect(hosts[1]!.heard).toEqual([{ type: "worker-stop", graceMs: 1 }]);
  });

  it("asks for a host anew that waited for very long: its node may be gone", async () => {
    const { pool: made, hosts, pass } = pool();
    void made.start(wanted().signal);
    for (let second = 0; second < 121; second++) pass(1000);
    expect(hosts.map(({ isKilled }) => isKilled)).toEqual([true, false]);
  });

  it("ends the run if fewer than workers.min have room for too long", async () => {
    const ray = { maxRoomWaitMs: 60_000 };
    const { pool: made, hosts, pass, faults } = pool({ workers: { min: 2 }, ray });
    const first = made.start(wanted().signal);
    void made.start(wanted().signal);
    hosts[0]!.place("1");
    await first;
    for (let second = 0; second < 59; second++) pass(1000);
    expect(faults).toEqual([]);
    pass(1000);
    pass(1000);
    expect(faults.map(({ code, message }) => [code, message])).toEqual([
      [
        "CLUSTER_FULL",
        expect.stringContaining("1 of at least 2 workers found room, each for 1 CPU"),
      ],
    ]);
  });

  it("avoids nodes that cannot run workers, and ends the run if there is no other", async () => {
    const { pool: made, hosts, faults } = pool();
    const first = made.start(wanted().signal);
    hosts[0]!.refuse("node 10.0.0.1: it lacks Node.js", { node: "1" });
    expect(await first).toMatchObject({ refused: "node 10.0.0.1: it lacks Node.js" });
    const second = made.start(wanted().signal);
    expect(hosts[1]!.start.avoid).toEqual(["1"]);
    expect(faults).toEqual([]);
    hosts[1]!.refuse("node 10.0.0.2: it lacks Node.js", { node: "2" });
    await second;
    expect(faults.map(({ code, message }) => [code, message])).toEqual([
      ["RAY_SETUP_FAILED", expect.stringContaining("node 10.0.0.2: it lacks Node.js")],
    ]);
  });

  it("takes the newest host that it asked for, also if an older one comes up late", async () => {
    const { pool: made, hosts, pass } = pool();
    const start = made.start(wanted().signal);
    hosts[0]!.place("1");
    for (let second = 0; second < 121; second++) pass(1000);
    hosts[1]!.place("2");
    const { channel } = (await start) as Pick<Host, "channel">;
    channel.onMessage(() => {});
    channel.send({ type: "worker-stop", graceMs: 1 });
    expect(hosts.map(({ isKilled }) => isKilled)).toEqual([true, true]);
  });

  it("fills one node with PACK, counting those that are on their way", () => {
    const { pool: made, hosts } = pool({ workers: { cpu: 2 }, ray: { strategy: "PACK" } });
    for (let each = 0; each < 5; each++) void made.start(wanted().signal);
    expect(hosts.map(({ start }) => start.near)).toEqual(["1", "1", "2", "2", undefined]);
  });

  it("ends the run if nodes cannot be set up, and tries again after other refusals", async () => {
    const { pool: made, hosts, faults } = pool();
    const first = made.start(wanted().signal);
    hosts[0]!.refuse("the actor died");
    expect(await first).toEqual({ refused: "the actor died", retryAfterMs: 1000 });
    expect(faults).toEqual([]);
    const second = made.start(wanted().signal);
    hosts[1]!.refuse("pip failed", { isFinal: true });
    await second;
    expect(faults.map(({ code }) => code)).toEqual(["RAY_SETUP_FAILED"]);
  });
});
