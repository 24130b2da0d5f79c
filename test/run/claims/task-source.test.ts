import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import type { Storage } from "../../../src/data/storage/storage.ts";
import type { IndexRange } from "../../../src/foundation/index-set.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { shareOf } from "../../../src/foundation/shares.ts";
import { Claims, removeClaims } from "../../../src/run/claims/claims.ts";
import { TaskSource } from "../../../src/run/claims/task-source.ts";
import type { Processes } from "../../../src/run/coordinate/processes.ts";
import {
  claimsPrefix,
  commitPath,
  commitPrefix,
  sealPath,
} from "../../../src/run/directory/layout.ts";
import { recordBytes } from "../../../src/run/directory/records.ts";
import { virtualClock } from "../../fakes/virtual-clock.ts";
import { changedStorage } from "../run-fixture.ts";

const of = { runId: "R1", generation: 1 };

/** A run of so many tasks, and joining workers of other hosts: each sees only beats of others. */
function joined(total: number) {
  const clock = virtualClock();
  const storage = memoryStorage();
  const self = (pid: number) => ({ host: `h${pid}`, bootId: "b", pid, startTime: "1" });
  const worker = (name: string, share?: IndexRange) => {
    const pid = Number.parseInt(name, 36);
    const processes: Processes = { self: () => self(pid), look: () => "elsewhere" };
    let isDead = false;
    const own = changedStorage(storage, (inner) => ({
      replace: async (path, bytes) => (isDead ? undefined : await inner.replace(path, bytes)),
    }));
    const claims = new Claims({ storage: own, clock, processes, of, owner: name });
    const stop = new AbortController();
    const random = seededRandom(pid);
    const options = { storage, clock, random, claims, of, total, committed: new Set<number>() };
    const source = new TaskSource({ ...options, share, signal: stop.signal });
    /** Its heartbeat reaches nobody any more. */
    const die = async () => {
      isDead = true;
      await claims.end();
    };
    return { claims, stop, take: () => source.take(), die };
  };
  const commit = async (...tasks: number[]) => {
    for (const task of tasks) {
      await storage.createIfAbsent(commitPath(task, of), recordBytes({ task }));
    }
  };
  const pass = (ms: number) => new Promise<void>((resolve) => clock.schedule(ms, resolve));
  return { clock, storage, worker, commit, pass, run: <T>(work: Promise<T>) => clock.run(work) };
}

/** Makes the requests of a joining worker last as in an object store. */
function delayRequests(storage: Storage, wait: () => Promise<void>): void {
  const { list, createIfAbsent, read } = storage;
  storage.list = async function* (prefix) {
    await wait();
    yield* list.call(storage, prefix);
  };
  storage.createIfAbsent = async (...given) => {
    await wait();
    return await createIfAbsent.apply(storage, given);
  };
  storage.read = async (path) => {
    await wait();
    return await read.call(storage, path);
  };
}

describe("the tasks of a joining worker", () => {
  it("are those of its share in order, then the far end of what is left to others", async () => {
    const { worker, run, pass } = joined(8);
    const first = worker("a", { first: 0, last: 3 });
    const second = worker("b", { first: 4, last: 7 });
    const take = async (it: typeof first) => {
      await pass(1000);
      return await it.take();
    };
    const taken = run(
      (async () => {
        await first.claims.begin();
        await second.claims.begin();
        const own = [await take(first), await take(first), await take(first), await take(first)];
        const helped = [await take(first), await take(first)];
        const others = [await take(second), await take(second)];
        await first.claims.end();
        await second.claims.end();
        return { own, helped, others };
      })(),
    );
    expect(await taken).toEqual({
      own: [[0], [1], [2], [3]],
      helped: [[7], [6]],
      others: [[4], [5]],
    });
  });

  it("are none once everything is committed, and are waited for until then", async () => {
    const { worker, run, commit, pass, clock, storage } = joined(2);
    const [first, second] = [worker("a"), worker("b")];
    // A listing has a page for each 1,000 commits, and each waiting worker would ask for it.
    let listings = 0;
    const { list } = storage;
    storage.list = (prefix) => {
      if (prefix === commitPrefix) listings++;
      return list.call(storage, prefix);
    };
    const ended = run(
      (async () => {
        await first.claims.begin();
        await second.claims.begin();
        await first.take();
        await first.take();
        const waiting = second.take();
        await pass(60_000);
        await commit(0, 1);
        const none = await waiting;
        await first.claims.end();
        return { none, atMs: clock.monotonic() };
      })(),
    );
    const { none, atMs } = await ended;
    expect(none).toEqual([]);
    expect(atMs).toBeGreaterThanOrEqual(60_000);
    expect(listings).toBe(1);
  });

  it("are what a worker has not committed whose heartbeat stands still for 10 s", async () => {
    const { worker, run, commit, clock } = joined(3);
    const [dead, helper] = [worker("a"), worker("b")];
    const taken = run(
      (async () => {
        await dead.claims.claim({ first: 0, last: 2 });
        await commit(1);
        const tasks = await helper.take();
        const fromMs = clock.monotonic();
        tasks.push(...(await helper.take()));
        return { tasks, fromMs, again: await worker("c").claims.claim({ first: 0, last: 2 }) };
      })(),
    );
    const { tasks, fromMs, again } = await taken;
    expect(tasks).toEqual([0, 2]);
    expect(fromMs).toBeGreaterThanOrEqual(10_000);
    expect(fromMs).toBeLessThan(14_000);
    // A third one, which has read nothing, tries the first number, and loses.
    expect(again).toBe(false);
  });

  it("stay those of a helper, though it has a part of a claim of the far end", async () => {
    const { worker, run } = joined(4);
    const [dead, helper, other] = [worker("a"), worker("b"), worker("c")];
    const taken = run(
      (async () => {
        await dead.claims.claim({ first: 0, last: 3 }, 3);
        await helper.claims.begin();
        const tasks = [await helper.take(), await helper.take()].flat();
        await other.claims.begin();
        const others = [await other.take(), await other.take()].flat();
        await helper.claims.end();
        await other.claims.end();
        return { tasks, others };
      })(),
    );
    const { tasks, others } = await taken;
    expect([tasks, others]).toEqual([
      [3, 2],
      [1, 0],
    ]);
  });

  it("are those of a worker that has ended, at once", async () => {
    const { worker, run, clock } = joined(2);
    const [gone, helper] = [worker("a"), worker("b")];
    const taken = run(
      (async () => {
        await gone.claims.begin();
        await gone.take();
        await gone.claims.end();
        return [await helper.take(), await helper.take()];
      })(),
    );
    expect((await taken).flat().toSorted()).toEqual([0, 1]);
    expect(clock.monotonic()).toBeLessThan(1000);
  });

  it("are given once, though a helper that is gone has succeeded the claim meanwhile", async () => {
    const { worker, run, commit } = joined(2);
    const [paused, helper] = [worker("a"), worker("b")];
    const taken = run(
      (async () => {
        const first = await paused.take();
        // A worker without heartbeats counts as gone after a while: the helper gets all of it.
        await helper.claims.begin();
        const all = [await helper.take(), await helper.take()].flat();
        await helper.claims.end();
        const second = await paused.take();
        const third = paused.take();
        await commit(...all);
        return { first, second, third: await third };
      })(),
    );
    const { first, second, third } = await taken;
    expect(first).toEqual([1]);
    expect(second).toEqual([0]);
    expect(third).toEqual([]);
  });

  it("are many at once where they are short, and half of what is left at most", async () => {
    const { worker, run, pass, storage } = joined(1000);
    delayRequests(storage, () => pass(30));
    const { take, claims } = worker("a", { first: 0, last: 999 });
    const sizes = run(
      (async () => {
        const sizes: number[] = [];
        let last = 0;
        do {
          last = (await take()).length;
          sizes.push(last);
          // A task takes 50 ms: 60 ms a claim are 1 % of 120 tasks.
          await pass(last * 50);
        } while (last > 0 && sizes.length < 40);
        await claims.end();
        return sizes;
      })(),
    );
    const all = await sizes;
    expect(all.slice(0, 3)).toEqual([1, 120, 120]);
    expect(all.reduce((sum, size) => sum + size)).toBe(1000);
    expect(all.at(-2)).toBe(1);
  });

  it.each([1, 2, 3, 4])(
    "are shared by 16 workers so that all end together: one is slow, and two die (seed %i)",
    async (seed) => {
      const total = 800;
      const { worker, run, pass, commit, clock, storage } = joined(total);
      const random = seededRandom(seed);
      delayRequests(storage, () => pass(30 + 10 * random.next()));
      let done = 0;
      const endsMs: number[] = [];
      const committed = new Set<number>();
      const live = async (index: number) => {
        const diesAtMs = index < 2 ? 8000 : Number.POSITIVE_INFINITY;
        const msPerTask = index === 2 ? 10_000 : 1000;
        const share = shareOf(total, index, 16);
        const { claims, take, die } = worker(String.fromCharCode(97 + index), share);
        await pass(2000 * random.next());
        await claims.begin();
        // Like a worker that has a task ready before the last one ends.
        let taking = take();
        for (let tasks = await taking; tasks.length > 0; tasks = await taking) {
          for (const task of tasks) {
            const ms = msPerTask * (1 + random.next() / 25);
            await pass(ms / 2);
            if (task === tasks.at(-1)) taking = take();
            await pass(ms / 2);
            if (clock.monotonic() >= diesAtMs) return await die();
            await commit(task);
            committed.add(task);
            done++;
          }
          endsMs.push(clock.monotonic());
        }
        await claims.end();
      };
      await run(Promise.all(Array.from({ length: 16 }, (_, index) => live(index))));
      expect(committed.size).toBe(total);
      // 15.1 workers for 8 s, then 13.1; they begin after 1 s, and take 1.02 s a task.
      const idealMs = 9000 + ((total - 15.1 * 7) / 13.1) * 1020;
      expect(Math.max(...endsMs) / idealMs).toBeLessThan(1.05);
      expect(done).toBe(total);
    },
  );

  it("are not left by a slow worker to a fast one that is gone", async () => {
    const total = 500;
    const { worker, run, pass, commit, clock } = joined(total);
    let done = 0;
    const work = async (it: ReturnType<typeof worker>, msPerTask: number, untilMs: number) => {
      await it.claims.begin();
      for (let tasks = await it.take(); tasks.length > 0; tasks = await it.take()) {
        for (const task of tasks) {
          await pass(msPerTask);
          await commit(task);
          done++;
        }
        if (clock.monotonic() > untilMs) return await it.die();
      }
      await it.claims.end();
    };
    const ended = run(
      (async () => {
        const slow = work(worker("a"), 1000, Number.POSITIVE_INFINITY);
        await work(worker("b"), 10, 4400);
        const fromMs = clock.monotonic();
        const left = total - done;
        await slow;
        return { left, ms: clock.monotonic() - fromMs };
      })(),
    );
    const { left, ms } = await ended;
    expect(left).toBeGreaterThan(40);
    expect(ms / left).toBeLessThan(1100);
  });

  it("belong to one of two who claim the same, and the other one learns of it", async () => {
    const { worker, run } = joined(4);
    const [first, second] = [worker("a"), worker("b")];
    const ranges = run(
      Promise.all([first.claims.claim({ first: 0, last: 1 }), second.take(), second.take()]),
    );
    const [, ...taken] = await ranges;
    expect(taken.flat()).not.toContain(0);
  });

  it("are less than half of what is left, so that both ends may be claimed at once", async () => {
    const { storage, worker, run, pass } = joined(400);
    delayRequests(storage, () => pass(1000));
    const taken = await run(
      Promise.all(
        [worker("a", { first: 0, last: 399 }), worker("b")].map(async ({ take }) => {
          const first = await take();
          await pass(1);
          return [...first, ...(await take())];
        }),
      ),
    );
    expect(Math.max(...taken.map(({ length }) => length))).toBeGreaterThan(100);
    expect(new Set(taken.flat()).size).toBe(taken.flat().length);
  });

  it("are none once the run is sealed, whatever others seem to do", async () => {
    const { storage, worker, run, pass } = joined(1);
    const [first, second] = [worker("a"), worker("b")];
    const taken = run(
      (async () => {
        await first.claims.begin();
        expect(await first.take()).toEqual([0]);
        const waiting = second.take();
        await pass(60_000);
        await storage.createIfAbsent(sealPath(of), recordBytes({}));
        const rest = await waiting;
        await first.claims.end();
        return rest;
      })(),
    );
    expect(await taken).toEqual([]);
  });

  it("belong to the newest claim of them, in whatever order claims are read", async () => {
    const { storage, worker, run, pass } = joined(4);
    const [first, next, reader] = [worker("a"), worker("b"), worker("c")];
    await run(first.claims.claim({ first: 0, last: 3 }));
    await run(next.claims.read());
    await run(next.claims.claim({ first: 0, last: 1 }));
    const { read } = storage;
    storage.read = async (path) => {
      const bytes = await read.call(storage, path);
      if (Buffer.from(bytes).includes('"number":1')) await pass(1000);
      return bytes;
    };
    await run(reader.claims.read());
    expect([...reader.claims.standing()]).toMatchObject([{ owner: "b", first: 0, last: 1 }]);
  });
});

describe("the heartbeat of a joining worker", () => {
  it("ends with its last word, also when one is being written then", async () => {
    const { storage, worker, run, pass } = joined(1);
    const { claims } = worker("a");
    const ends: boolean[] = [];
    const delaysMs = [0, 5000];
    const { replace } = storage;
    storage.replace = async (path, bytes) => {
      await pass(delaysMs.shift() ?? 0);
      ends.push(JSON.parse(Buffer.from(bytes).toString()).hasEnded);
      await replace.call(storage, path, bytes);
    };
    await run(
      (async () => {
        await claims.begin();
        await pass(limits.heartbeatIntervalMs + 1);
        await claims.end();
        await pass(10 * limits.heartbeatIntervalMs);
      })(),
    );
    expect(ends).toEqual([false, false, true]);
  });
});

describe("removeClaims", () => {
  it("leaves nothing of them", async () => {
    const { worker, storage, run } = joined(4);
    const { claims, take } = worker("a");
    await run(
      claims
        .begin()
        .then(take)
        .then(() => claims.end()),
    );
    await removeClaims(storage, of);
    const left: string[] = [];
    for await (const { path } of storage.list(claimsPrefix(of))) left.push(path);
    expect(left).toEqual([]);
  });
});
