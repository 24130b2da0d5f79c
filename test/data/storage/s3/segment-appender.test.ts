import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  flushIntervalMs,
  maxSegmentBytes,
  SegmentAppender,
} from "../../../../src/data/storage/s3/segment-appender.ts";
import { FileSpool } from "../../../../src/data/storage/s3/spool.ts";
import { limits } from "../../../../src/foundation/limits.ts";
import { handClock } from "../../../hand-clock.ts";

const path = "a/journal.jsonl";

/** An appender over a spool of this machine, and what it put into the store. */
function appenderHere(put?: (number: number) => Promise<void>) {
  const root = mkdtempSync(join(tmpdir(), "sluice-spool-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const spool = new FileSpool(root);
  const { clock, pass } = handClock();
  const stored: string[] = [];
  const appender = new SegmentAppender({
    ...{ path, firstNumber: 1, spool, clock, putCostMs: 50 },
    put: async (number, data) => {
      await put?.(number);
      stored[number] = Buffer.from(data).toString();
    },
  });
  return { root, spool, pass, stored, appender };
}

describe("flushIntervalMs", () => {
  it("is that of Young, and never above the limit", () => {
    expect(flushIntervalMs(50)).toBeCloseTo(Math.sqrt(2 * 50 * 3_600_000));
    expect(flushIntervalMs(10_000)).toBe(limits.maxSegmentAgeMs);
    expect(flushIntervalMs(0)).toBeGreaterThan(1000);
  });
});

describe("SegmentAppender", () => {
  it("has on disk what append resolved for, and in the store what is old enough", async () => {
    const { spool, pass, stored, appender } = appenderHere();
    await appender.append(Buffer.from("one\n"));
    await appender.append(Buffer.from("two\n"));
    expect(Buffer.from((await spool.read(path, 1))!).toString()).toBe("one\ntwo\n");
    expect(stored).toEqual([]);
    pass(flushIntervalMs(50));
    await appender.append(Buffer.from("three\n"));
    expect(Buffer.from((await spool.read(path, 2))!).toString()).toBe("three\n");
    await appender.close();
    expect(stored.slice(1)).toEqual(["one\ntwo\n", "three\n"]);
    expect(await spool.numbers(path)).toEqual([]);
  });

  it("begins a new segment where one is large enough, and leaves no folder behind", async () => {
    const { root, stored, appender } = appenderHere();
    const half = Buffer.alloc(maxSegmentBytes / 2, "x");
    for (let halves = 0; halves < 5; halves++) await appender.append(half);
    await appender.close();
    expect(stored.slice(1).map((it) => it.length / half.length)).toEqual([2, 2, 1]);
    expect(existsSync(root)).toBe(false);
  });

  it("spares the store what nobody needs", async () => {
    const { root, pass, stored, appender } = appenderHere();
    await appender.append(Buffer.from("one\n"));
    pass(limits.maxSegmentAgeMs);
    await appender.append(Buffer.from("two\n"));
    await appender.close({ isNeeded: false });
    expect(stored.slice(1)).toEqual(["one\n"]);
    expect(existsSync(root)).toBe(false);
  });

  it("keeps on disk what the store refused, and says so at the end", async () => {
    const { spool, pass, appender } = appenderHere(async (number) => {
      if (number === 1) throw new Error("refused");
    });
    await appender.append(Buffer.from("one\n"));
    pass(limits.maxSegmentAgeMs);
    await appender.append(Buffer.from("two\n"));
    await expect(appender.close()).rejects.toThrow("refused");
    expect(await spool.numbers(path)).toEqual([1, 2]);
  });
});
