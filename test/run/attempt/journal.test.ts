import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import type { Appender, Storage } from "../../../src/data/storage/storage.ts";
import { sleep } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import {
  type JournalEntry,
  type JournalPlace,
  JournalWriter,
  journalSyncIntervalMs,
  maxJournalBufferBytes,
  maxJournalBufferMs,
  readJournal,
} from "../../../src/run/attempt/journal.ts";
import { answeredHead } from "../../../src/run/attempt/journal-line.ts";
import { virtualClock } from "../../fakes/virtual-clock.ts";
import { changedStorage, errorOf } from "../run-fixture.ts";
import { settled } from "../scripted-engine.ts";

const path = "journal.jsonl";

interface Observed {
  appends: number[];
  syncs: number;
  failures: unknown[];
  drains: number;
}

/** A journal over memory, with what it did to its file. */
async function opened(
  change: (appender: Appender) => Partial<Appender> = () => ({}),
  whole = false,
) {
  const inner = memoryStorage();
  const seen: Observed = { appends: [], syncs: 0, failures: [], drains: 0 };
  const storage: Storage = changedStorage(inner, () => ({
    async appender(to) {
      const appender = await inner.appender(to);
      const observed: Appender = {
        async append(data) {
          seen.appends.push(data.length);
          await appender.append(data);
        },
        async sync() {
          seen.syncs++;
        },
        close: () => appender.close(),
      };
      return { ...observed, ...change(observed) };
    },
  }));
  const clock = virtualClock();
  const journal = await JournalWriter.open(storage, path, clock, {
    onFailure: (error) => seen.failures.push(error),
    onDrain: () => seen.drains++,
    wholeLines: whole,
  });
  const at = async ({ offset, bytes }: JournalPlace) =>
    Buffer.from(await inner.read(path))
      .subarray(offset, offset + bytes)
      .toString();
  return { journal, storage: inner, clock, seen, at };
}

async function entries(storage: Storage): Promise<JournalEntry[]> {
  const found: JournalEntry[] = [];
  for await (const entry of readJournal(storage, path)) found.push(entry);
  return found;
}

const put = (journal: JournalWriter, index: number, answer: unknown) =>
  journal.appendAnswer(answeredHead(index, []), JSON.stringify(answer));

describe("JournalWriter", () => {
  it("writes after its time, many lines at once", async () => {
    const { journal, clock, seen, storage } = await opened();
    for (let index = 0; index < 50; index++) put(journal, index, "yes");
    await settled();
    expect(seen.appends).toEqual([]);
    await clock.run(sleep(clock, maxJournalBufferMs));
    await settled();
    expect(seen.appends).toHaveLength(1);
    expect(await entries(storage)).toHaveLength(50);
  });

  it("writes without waiting once its buffer is full", async () => {
    const { journal, seen } = await opened();
    const answer = "x".repeat(maxJournalBufferBytes / 4);
    for (let index = 0; index < 3; index++) put(journal, index, answer);
    await settled();
    expect(seen.appends).toEqual([]);
    put(journal, 3, answer);
    await settled();
    expect(seen.appends[0]).toBeGreaterThan(maxJournalBufferBytes);
  });

  it.each([
    ["ASCII", 'plain "quoted" \\ text'],
    ["several bytes a character", "Grüße, 25 °C, 水, 🍲"],
    ["a lone surrogate", "\ud83c alone"],
    ["an answer beyond the buffer", "é".repeat(maxJournalBufferBytes)],
    ["an object", { a: [1, null], ß: "ü" }],
  ])("says where an answer will stand: %s", async (_name, answer) => {
    const { journal, at } = await opened();
    const places = [put(journal, 0, "é before"), put(journal, 1, answer), put(journal, 2, "after")];
    const failed = journal.append({ index: 3, outcome: "asked", together: 2 });
    await journal.close();
    expect(await Promise.all(places.map(at))).toEqual(
      ["é before", answer, "after"].map((it) => JSON.stringify(it)),
    );
    expect(JSON.parse(await at(failed))).toEqual({ index: 3, outcome: "asked", together: 2 });
  });

  it("says where lines stand that are put while a write is under way", async () => {
    let release = () => {};
    const { journal, at } = await opened((appender) => ({
      async append(data) {
        await new Promise<void>((resolve) => {
          release = resolve;
        });
        await appender.append(data);
      },
    }));
    const first = put(journal, 0, "ä");
    const flushing = journal.flush();
    const second = put(journal, 1, "ö");
    const flushedToo = journal.flush();
    release();
    await settled();
    release();
    await Promise.all([flushing, flushedToo]);
    expect([await at(first), await at(second)]).toEqual(['"ä"', '"ö"']);
  });

  it("covers whole lines where those are asked for", async () => {
    const { journal, at } = await opened(undefined, true);
    put(journal, 0, "ü");
    const place = put(journal, 1, "ü");
    await journal.close();
    expect(JSON.parse(await at(place))).toMatchObject({ index: 1, answer: "ü" });
  });

  it("tells of a failed write once, and fails every flush from then on", async () => {
    const { journal, seen } = await opened(() => ({
      append: () => Promise.reject(new SluiceError("STORE_FULL")),
    }));
    put(journal, 0, "lost");
    expect((await errorOf(journal.flush())).code).toBe("STORE_FULL");
    put(journal, 1, "lost as well");
    expect((await errorOf(journal.sync())).code).toBe("STORE_FULL");
    expect(seen.failures).toHaveLength(1);
    await expect(journal.close()).resolves.toBeUndefined();
  });

  it("is isFull while much waits for a write, and tells when that is over", async () => {
    let release = () => {};
    const { journal, seen } = await opened(() => ({
      append: () =>
        new Promise<void>((resolve) => {
          release = resolve;
        }),
    }));
    const answer = "x".repeat(maxJournalBufferBytes);
    put(journal, 0, answer);
    expect(journal.isFull).toBe(false);
    for (let index = 1; index < 20; index++) put(journal, index, answer);
    expect(journal.isFull).toBe(true);
    expect(seen.drains).toBe(0);
    release();
    await settled();
    release();
    await settled();
    expect(journal.isFull).toBe(false);
    expect(seen.drains).toBe(1);
  });

  it("forces its file to disk every second while rows finish", async () => {
    const { journal, clock, seen } = await opened();
    for (let index = 0; index < 40; index++) {
      put(journal, index, "yes");
      await clock.run(sleep(clock, 100));
    }
    expect(seen.syncs).toBeGreaterThanOrEqual(3);
    expect(seen.syncs).toBeLessThanOrEqual(4);
  });

  it("forces the last rows to disk a second later, also when no more finish", async () => {
    const { journal, clock, seen } = await opened();
    put(journal, 0, "yes");
    await clock.run(sleep(clock, journalSyncIntervalMs * 2));
    await settled();
    expect(seen.syncs).toBe(1);
    await clock.run(sleep(clock, journalSyncIntervalMs * 5));
    expect(seen.syncs).toBe(1);
    await journal.close();
  });

  it("waits for a slow write before it forces the file to disk", async () => {
    const { journal, clock, seen } = await opened((appender) => ({
      async append(data) {
        await sleep(clock, 5000);
        await appender.append(data);
      },
    }));
    put(journal, 0, "yes");
    await clock.run(sleep(clock, 20));
    put(journal, 1, "yes");
    await clock.run(journal.flush());
    await clock.run(sleep(clock, 2000));
    expect(clock.monotonic()).toBeLessThan(15_000);
    expect(seen.syncs).toBeGreaterThanOrEqual(1);
  });

  it("loses nothing that is put while its file is forced to disk, and then closes", async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const { journal, clock, storage } = await opened(() => ({ sync: () => gate }));
    put(journal, 0, "yes");
    await clock.run(sleep(clock, journalSyncIntervalMs * 2));
    put(journal, 1, "yes");
    const closed = journal.close();
    open();
    await closed;
    expect((await entries(storage)).map(({ line }) => line.index)).toEqual([0, 1]);
  });

  it("writes soon what is put while its file is forced to disk, if nothing follows", async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const { journal, clock, storage } = await opened(() => ({ sync: () => gate }));
    put(journal, 0, "yes");
    await clock.run(sleep(clock, journalSyncIntervalMs * 2));
    put(journal, 1, "yes");
    open();
    await settled();
    await clock.run(sleep(clock, maxJournalBufferMs));
    await settled();
    expect((await entries(storage)).map(({ line }) => line.index)).toEqual([0, 1]);
  });

  it("leaves no timer behind when it closes", async () => {
    const { journal, clock } = await opened();
    put(journal, 0, "yes");
    await journal.close();
    await expect(clock.run(new Promise(() => {}), 60_000)).rejects.toThrow("no timer is scheduled");
    expect(clock.monotonic()).toBe(0);
  });
});

describe("readJournal", () => {
  const whole = '{"index":0,"outcome":"answered","requests":[],"answer":"ä"}\n';

  async function read(text: string | Uint8Array): Promise<number[]> {
    const storage = memoryStorage();
    await storage.replace(path, Buffer.from(text as string));
    return (await entries(storage)).map(({ line }) => line.index);
  }

  it("takes lines only whole", async () => {
    const second = whole.replace("0", "1");
    expect(await read(whole + second)).toEqual([0, 1]);
    for (let cut = 1; cut < second.length; cut++) {
      expect(await read(whole + second.slice(0, -cut))).toEqual([0]);
    }
  });

  it("ends at a torn line, whatever stands behind it", async () => {
    expect(await read(`${whole}{"index":1,"out\n${whole.replace("0", "2")}`)).toEqual([0]);
    expect(await read(`${whole}{"index":1,"out${whole.replace("0", "2")}`)).toEqual([0]);
  });

  it("reads characters that lie over the border of two chunks", async () => {
    const answer = "ä".repeat(limits.readChunkBytes);
    const storage = memoryStorage();
    const line = `{"index":0,"outcome":"answered","requests":[],"answer":"${answer}"}`;
    await storage.replace(path, Buffer.from(`${line}\n${whole}`));
    const [first, second] = await entries(storage);
    expect(first!.text === line).toBe(true);
    expect(second!.text).toBe(whole.trimEnd());
  });
});
