import { beforeEach, describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import type { Storage } from "../../../src/data/storage/storage.ts";
import { sleep } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import {
  type CancelRequest,
  Coordinator,
  countCancels,
  leadingCoordinator,
  leadTimes,
  requestCancel,
  watchCancel,
} from "../../../src/run/coordinate/coordinator.ts";
import type { ProcessIdentity } from "../../../src/run/coordinate/processes.ts";
import { cancelPrefix } from "../../../src/run/directory/layout.ts";
import { type VirtualClock, virtualClock } from "../../fakes/virtual-clock.ts";
import { changedStorage, errorOf, jobOf } from "../run-fixture.ts";
import { settled } from "../scripted-engine.ts";

let storage: Storage;
let clock: VirtualClock;
/** Processes that live, as `host/pid`. */
let living: Set<string>;

beforeEach(() => {
  storage = memoryStorage();
  clock = virtualClock();
  living = new Set();
});

interface RuleOptions {
  over?: Storage;
  /** True for a process that dies at once: no time passes for it any more. */
  dies?: boolean;
  cancelsBefore?: number;
  id?: string;
  /** What the process knows of its own leaders. */
  ended?: Set<string>;
}

/** Leads as a process of some host. */
async function lead(
  host: string,
  pid: number,
  { over = storage, dies = false, ended, ...more }: RuleOptions = {},
): Promise<Coordinator> {
  const ownClock = dies ? virtualClock() : clock;
  const self: ProcessIdentity = { host, bootId: host, pid, startTime: `${pid}` };
  living.add(`${host}/${pid}`);
  const leader = Coordinator.lead({
    storage: over,
    clock: ownClock,
    id: `${host}-${pid}`,
    job: jobOf(),
    ...more,
    processes: {
      ...(ended && { ended }),
      self: () => self,
      look: (other) => {
        if (other.host !== host) return "elsewhere";
        return living.has(`${other.host}/${other.pid}`) ? "alive" : "dead";
      },
    },
  });
  return await ownClock.run(leader);
}

/** Codes of what a coordinator hears: why it is to stop. */
function endsOf({ signal }: Coordinator): string[] {
  const ends: string[] = [];
  signal.addEventListener("abort", () => ends.push((signal.reason as SluiceError).code));
  return ends;
}

const pass = (ms: number) => clock.run(sleep(clock, ms));

describe("acquiring leadership", () => {
  it("counts coordinators up and leaves the older records", async () => {
    const first = await lead("a", 1);
    await first.end();
    const second = await lead("a", 2);
    expect([first.record.number, second.record.number]).toEqual([1, 2]);
    expect(await leadingCoordinator(storage)).toMatchObject({ id: "a-2", host: "a", pid: 2 });
  });

  it("leaves how long each had it: one that died as far as it last said", async () => {
    const first = await lead("a", 1);
    await pass(limits.heartbeatIntervalMs * 2 + 1);
    living.clear();
    await pass(3_600_000 - (limits.heartbeatIntervalMs * 2 + 1));
    const second = await lead("a", 2);
    await pass(500);
    await second.end();
    const [one, other] = await leadTimes(storage);
    expect(one).toMatchObject({ startedMs: Date.UTC(2026, 0, 1) });
    expect(other).toEqual({ startedMs: Date.UTC(2026, 0, 1, 1), seconds: 0.5 });
    await first.end();
  });

  it("is refused while a process of the same host lives, and at once", async () => {
    await lead("a", 1);
    const error = await errorOf(lead("a", 2));
    expect(error).toMatchObject({ code: "COORDINATOR_LIVES", exitCode: 75 });
    expect(error.message).toContain("process 1 on a");
    expect(clock.monotonic()).toBe(0);
  });

  it("passes at once from a process of the same host that died", async () => {
    await lead("a", 1);
    living.delete("a/1");
    await lead("a", 2);
    expect(clock.monotonic()).toBe(0);
  });

  it("passes at once from one on another host that gave it up", async () => {
    await (await lead("a", 1)).end();
    await lead("b", 2);
    expect(clock.monotonic()).toBe(0);
  });

  it("passes from another host only after its heartbeat stood still on our own clock", async () => {
    await lead("a", 1, { dies: true });
    await lead("b", 2);
    expect(clock.monotonic()).toBeGreaterThanOrEqual(limits.coordinatorWatchMs);
  });

  it("is refused while the heartbeat of another host moves", async () => {
    await lead("a", 1);
    const error = await errorOf(lead("b", 2));
    expect(error.code).toBe("COORDINATOR_LIVES");
    expect(clock.monotonic()).toBeLessThan(limits.coordinatorWatchMs);
  });

  it("passes at once from one that failed to begin", async () => {
    const over = changedStorage(storage, (inner) => ({
      async *list(prefix) {
        if (prefix === cancelPrefix) throw new SluiceError("STORE_FAILED");
        yield* inner.list(prefix);
      },
    }));
    expect((await errorOf(lead("a", 1, { over }))).code).toBe("STORE_FAILED");
    await lead("b", 2);
    expect(clock.monotonic()).toBe(0);
  });

  it("is free for the process of one that ended on a full disk", async () => {
    const ended = new Set<string>();
    let isFull = false;
    const over = changedStorage(storage, (inner) => ({
      replace: (path, data) =>
        isFull ? Promise.reject(new SluiceError("STORE_FULL")) : inner.replace(path, data),
    }));
    const first = await lead("a", 1, { over, ended });
    isFull = true;
    await first.end();
    // Others cannot know that it does not lead.
    expect((await errorOf(lead("a", 2))).code).toBe("COORDINATOR_LIVES");
    const second = await lead("a", 1, { ended, id: "again" });
    expect(second.record.number).toBe(2);
    await expect(second.assertLeads()).resolves.toBeUndefined();
  });

  it("needs no listing that knows the newest record", async () => {
    await lead("a", 1);
    living.delete("a/1");
    const over = changedStorage(storage, (inner) => ({
      async *list(prefix) {
        for await (const file of inner.list(prefix)) if (!file.path.includes("002")) yield file;
      },
    }));
    const second = await lead("a", 2, { over });
    await expect(second.assertLeads()).resolves.toBeUndefined();
    const error = await errorOf(lead("a", 3, { over }));
    expect(error.message).toContain("process 2 on a");
  });

  it("falls to one of many that try at once", async () => {
    const tries = [1, 2, 3, 4].map((pid) => lead("a", pid).catch(({ code }: SluiceError) => code));
    const outcomes = await Promise.all(tries);
    expect(outcomes.filter((outcome) => outcome === "COORDINATOR_LIVES")).toHaveLength(3);
  });

  it("counts the right way beyond nine coordinators", async () => {
    for (let pid = 1; pid <= 11; pid++) await (await lead("a", pid)).end();
    expect(await leadingCoordinator(storage)).toMatchObject({ number: 11 });
  });
});

describe("a coordinator at work", () => {
  it("hears that another one leads, and says so wherever it would seal", async () => {
    const first = await lead("a", 1);
    const ends = endsOf(first);
    await expect(first.assertLeads()).resolves.toBeUndefined();
    living.delete("a/1");
    await lead("a", 2);
    expect((await errorOf(first.assertLeads())).code).toBe("COORDINATOR_LOST");
    await pass(limits.heartbeatIntervalMs * 3);
    expect(ends).toEqual(["COORDINATOR_LOST"]);
  });

  it("hears that the run was canceled, once", async () => {
    const ends = endsOf(await lead("a", 1));
    await pass(limits.heartbeatIntervalMs * 2);
    expect(ends).toEqual([]);
    await requestCancel(storage, "someone");
    await pass(limits.heartbeatIntervalMs * 3);
    expect(ends).toEqual(["RUN_CANCELED"]);
  });

  it("hears that it is to stop sooner than at first, not that it may take longer", async () => {
    const { signal } = await lead("a", 1);
    await requestCancel(storage, "someone", 60_000);
    await pass(limits.heartbeatIntervalMs * 2);
    await requestCancel(storage, "patient", 90_000);
    await pass(limits.heartbeatIntervalMs * 2);
    const { hurry } = signal.reason as CancelRequest;
    expect(hurry.aborted).toBe(false);
    await requestCancel(storage, "hasty", 1000);
    await pass(limits.heartbeatIntervalMs * 2);
    expect(hurry.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ graceMs: 60_000, hurryMs: 1000 });
  });

  it("removes nothing once another one leads", async () => {
    const first = await lead("a", 1);
    await storage.replace("old", Buffer.from("x"));
    living.delete("a/1");
    await lead("a", 2);
    expect((await errorOf(first.remove(["old"]))).code).toBe("COORDINATOR_LOST");
    expect(await storage.stat("old")).toBeDefined();
  });

  it("has the last word when it ends, also while a heartbeat is being written", async () => {
    const ends: boolean[] = [];
    const delaysMs = [0, 5000];
    const slow = changedStorage(storage, (inner) => ({
      async replace(path, data) {
        await sleep(clock, delaysMs.shift() ?? 0);
        ends.push(JSON.parse(Buffer.from(data).toString()).ended);
        await inner.replace(path, data);
      },
    }));
    const coordinator = await lead("a", 1, { over: slow });
    await pass(limits.heartbeatIntervalMs + 1);
    await clock.run(coordinator.end());
    await pass(10 * limits.heartbeatIntervalMs);
    expect(ends).toEqual([false, false, true]);
  });

  it("keeps leading after a cancel, until it has stopped", async () => {
    const coordinator = await lead("a", 1);
    await requestCancel(storage, "someone");
    await pass(limits.coordinatorWatchMs * 2);
    expect(coordinator.signal.aborted).toBe(true);
    expect((await errorOf(lead("b", 2))).code).toBe("COORDINATOR_LIVES");
    await coordinator.end();
    expect((await lead("b", 2)).record.number).toBe(2);
  });

  it("obeys a cancel of before at once, if it was started before that", async () => {
    await requestCancel(storage, "a", 5);
    const first = await lead("a", 1, { cancelsBefore: 0 });
    expect(first.signal.reason).toMatchObject({ code: "RUN_CANCELED", graceMs: 5 });
  });

  it("is not ended by a cancel of the call before it", async () => {
    await requestCancel(storage, "someone");
    const ends = endsOf(await lead("a", 1));
    await pass(limits.heartbeatIntervalMs * 3);
    expect(ends).toEqual([]);
  });

  it("keeps its heartbeat going over a store that fails for a while", async () => {
    let isBroken = false;
    const shaky = changedStorage(storage, (inner) => ({
      replace: (path, data) =>
        isBroken ? Promise.reject(new SluiceError("STORE_FAILED")) : inner.replace(path, data),
    }));
    const ends = endsOf(await lead("a", 1, { over: shaky }));
    isBroken = true;
    await pass(limits.heartbeatIntervalMs * 3);
    isBroken = false;
    await pass(limits.heartbeatIntervalMs * 2);
    expect(ends).toEqual([]);
    expect((await errorOf(lead("b", 2))).code).toBe("COORDINATOR_LIVES");
  });

  it("leaves no timer when it ends", async () => {
    const coordinator = await lead("a", 1);
    await coordinator.end();
    await expect(clock.run(new Promise(() => {}), 60_000)).rejects.toThrow("no timer is scheduled");
  });
});

describe("cancels", () => {
  it("are counted, and two at once are two", async () => {
    await Promise.all([requestCancel(storage, "a"), requestCancel(storage, "b")]);
    expect(await countCancels(storage)).toBe(2);
  });

  it("are heard by what works without a coordinator, those from before not", async () => {
    await requestCancel(storage, "before");
    let heard = 0;
    const end = await watchCancel(storage, clock, () => heard++);
    await pass(limits.heartbeatIntervalMs * 2);
    expect(heard).toBe(0);
    await requestCancel(storage, "now");
    await pass(limits.heartbeatIntervalMs * 3);
    expect(heard).toBe(1);
    end();
  });

  it("are heard no more once the watch ended, also while it looks", async () => {
    let heard = 0;
    const list = Promise.withResolvers<void>();
    let looks = 0;
    const slow = changedStorage(storage, (inner) => ({
      async *list(prefix) {
        if (++looks > 1) await list.promise;
        yield* inner.list(prefix);
      },
    }));
    const end = await watchCancel(slow, clock, () => heard++);
    await requestCancel(storage, "late");
    await pass(limits.heartbeatIntervalMs + 1);
    end();
    list.resolve();
    await settled();
    expect([looks, heard]).toEqual([2, 0]);
  });

  it("are heard no more once the watch ended", async () => {
    let heard = 0;
    const end = await watchCancel(storage, clock, () => heard++);
    end();
    await requestCancel(storage, "late");
    await settled();
    await expect(clock.run(new Promise(() => {}), 60_000)).rejects.toThrow("no timer is scheduled");
    expect(heard).toBe(0);
  });
});
