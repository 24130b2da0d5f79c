import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type RangeSource, ReadAheadMemory, readAhead } from "../../src/data/read-ahead.ts";
import { limits } from "../../src/foundation/limits.ts";

const content = Buffer.from(
  Array.from({ length: 300_000 }, (_, at) => (at * 31 + (at >> 8)) % 251),
);

interface Asked {
  start: number;
  end: number;
  isAborted: () => boolean;
  answer: () => void;
}

/** A source of `content`, or of zeros where it is to be longer; `answer` it by hand if `isHeld`. */
function source(how: { isHeld?: boolean; bytes?: number; aheadEnd?: number } = {}) {
  const { isHeld = false, bytes = content.length, aheadEnd = bytes } = how;
  const asked: Asked[] = [];
  const held: RangeSource = {
    bytes,
    aheadEnd,
    fetch: (start, end, signal) =>
      new Promise((resolve) => {
        const data = bytes === content.length ? content.subarray(start, end) : undefined;
        const answer = () => resolve(data ?? new Uint8Array(end - start));
        asked.push({ start, end, isAborted: () => signal.aborted, answer });
        if (!isHeld) answer();
      }),
  };
  return { source: held, asked };
}

describe("readAhead", () => {
  it("gives the bytes of any reads, in any order", async () => {
    const read = fc.record({ offset: fc.nat(310_000), length: fc.nat(120_000) });
    const step = fc.oneof(read, fc.record({ next: fc.integer({ min: 1, max: 90_000 }) }));
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        const reader = readAhead(source().source, new ReadAheadMemory(200_000));
        let end = 0;
        for (const each of steps) {
          const { offset, length } = "next" in each ? { offset: end, length: each.next } : each;
          const bytes = await reader.read(offset, length);
          expect(Buffer.compare(bytes, content.subarray(offset, offset + length))).toBe(0);
          end = offset + bytes.length;
        }
        await reader.close();
      }),
    );
  });

  it("answers reads that overlap in time", async () => {
    const { source: held, asked } = source({ isHeld: true });
    const reader = readAhead(held, new ReadAheadMemory());
    const reads = [reader.read(0, 10), reader.read(100_000, 10), reader.read(5, 10)];
    for (const each of asked) each.answer();
    expect((await Promise.all(reads)).map((bytes) => bytes[0])).toEqual([
      content[0],
      content[100_000],
      content[5],
    ]);
    expect(asked.filter((each) => each.isAborted())).toEqual([]);
  });

  it("asks ahead of who reads on, no further than was read", async () => {
    const bytes = 64 * 1024 * 1024;
    const { source: long, asked } = source({ bytes });
    const reader = readAhead(long, new ReadAheadMemory());
    const chunk = limits.readChunkBytes;
    await reader.read(0, chunk);
    expect(asked.at(-1)?.end).toBe(2 * chunk);
    for (let offset = chunk; offset < 32 * 1024 * 1024; offset += chunk) {
      await reader.read(offset, chunk);
      const ahead = asked.at(-1)!.end - offset - chunk;
      const size = Math.max(...asked.map(({ start, end }) => end - start));
      expect(ahead).toBeLessThanOrEqual(Math.min(offset + chunk, 16 * 1024 * 1024) + size);
      expect(ahead).toBeGreaterThan(0);
    }
    // Each byte once.
    const sorted = asked.toSorted((a, b) => a.start - b.start);
    expect(sorted.every(({ start }, at) => start === (sorted[at - 1]?.end ?? 0))).toBe(true);
    // 128 reads: requests grow with what was read.
    expect(asked.length).toBeLessThan(64);
    expect(asked.at(-1)!.end - asked.at(-1)!.start).toBe(limits.maxRangeBytes);
  });

  it("asks for a long range in several pieces at once", async () => {
    const { source: held, asked } = source({ bytes: 10 * limits.maxRangeBytes, isHeld: true });
    const reading = readAhead(held, new ReadAheadMemory()).read(5, 3 * limits.maxRangeBytes);
    expect(asked.filter(({ end }) => end <= 5 + 3 * limits.maxRangeBytes)).toHaveLength(3);
    for (const each of asked) each.answer();
    expect((await reading).length).toBe(3 * limits.maxRangeBytes);
  });

  it("asks for nothing beyond a given end, or while others hold all there may be", async () => {
    const { source: bounded, asked } = source({ bytes: 1e9, aheadEnd: 1_000_000 });
    const reader = readAhead(bounded, new ReadAheadMemory());
    for (let at = 0; at < 1_000_000; at += 200_000) await reader.read(at, 200_000);
    expect(asked.at(-1)?.end).toBe(1_000_000);

    const memory = new ReadAheadMemory(limits.readChunkBytes);
    const first = readAhead(source({ bytes: 1e9 }).source, memory);
    await first.read(0, limits.readChunkBytes);
    const second = source({ bytes: 1e9 });
    await readAhead(second.source, memory).read(0, limits.readChunkBytes);
    expect(second.asked).toHaveLength(1);
    await first.close();
    await readAhead(second.source, memory).read(0, limits.readChunkBytes);
    expect(second.asked).toHaveLength(3);
  });

  it("takes back what nobody waits for when it is closed", async () => {
    const { source: held, asked } = source({ bytes: 1e9, isHeld: true });
    const reader = readAhead(held, new ReadAheadMemory());
    const reading = reader.read(0, limits.readChunkBytes);
    asked[0]!.answer();
    await reading;
    await reader.close();
    expect(asked.map((each) => each.isAborted())).toEqual([false, true]);
  });

  it("asks again after a failure", async () => {
    let fails = true;
    const flaky: RangeSource = {
      bytes: 100,
      fetch: async (start, end) => {
        if (fails) throw new Error("reset");
        return content.subarray(start, end);
      },
    };
    const reader = readAhead(flaky, new ReadAheadMemory());
    await expect(reader.read(0, 50)).rejects.toThrow("reset");
    fails = false;
    expect(Buffer.compare(await reader.read(0, 50), content.subarray(0, 50))).toBe(0);
  });
});
