import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { shuffled } from "../../src/dataset/barrier.ts";
import { seededRandom } from "../../src/foundation/random.ts";

const directory = mkdtempSync(join(tmpdir(), "sluice-shuffle-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function* given(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
}

async function orderOf(lines: readonly string[], seed: number, maxChars: number) {
  const random = seededRandom(seed);
  const found: string[] = [];
  for await (const line of shuffled(given(lines), { random, directory, maxChars }))
    found.push(line);
  return found;
}

const numbers = (count: number) => Array.from({ length: count }, (_, at) => String(at));

describe("shuffled", () => {
  it("gives every line once, in memory and beyond it", async () => {
    const lines = fc.array(fc.string({ unit: "grapheme" }).map((text) => JSON.stringify(text)));
    await fc.assert(
      fc.asyncProperty(
        lines,
        fc.nat(),
        fc.constantFrom(1, 40, 10_000),
        async (some, seed, most) => {
          expect((await orderOf(some, seed, most)).sort()).toEqual(some.toSorted());
        },
      ),
      { numRuns: 25 },
    );
  });

  it("keeps a line whole that holds other line separators", async () => {
    const lines = ['"\u2028"', '"\u2029"', '"a\u0085b"'];
    expect((await orderOf(lines, 3, 1)).sort()).toEqual(lines.toSorted());
  });

  it("ends its lines if they cannot be thrown into files", async () => {
    let hasEnded = false;
    async function* lines() {
      try {
        yield* numbers(500);
      } finally {
        hasEnded = true;
      }
    }
    const absent = { random: seededRandom(1), directory: join(directory, "absent"), maxChars: 30 };
    await expect(shuffled(lines(), absent).next()).rejects.toThrow("ENOENT");
    expect(hasEnded).toBe(true);
  });

  it("follows from the seed alone", async () => {
    const lines = numbers(500);
    for (const most of [100_000, 300]) {
      const order = await orderOf(lines, 7, most);
      expect(await orderOf(lines, 7, most)).toEqual(order);
      expect(await orderOf(lines, 8, most)).not.toEqual(order);
      expect(order).not.toEqual(lines);
    }
  });

  it("puts each line anywhere, when it is thrown into files too", async () => {
    for (const most of [100_000, 25]) {
      const quarters = [0, 0, 0, 0];
      for (let seed = 0; seed < 40; seed++) {
        const order = await orderOf(numbers(20), seed, most);
        quarters[Math.floor(order.indexOf("0") / 5)]!++;
      }
      // Fewer than 2 of 40 draws in one quarter have a chance of some 1 in 7,000.
      for (const count of quarters) expect(count).toBeGreaterThanOrEqual(2);
    }
  });

  it("rejects when its files cannot be written", () => {
    const own = mkdtempSync(join(tmpdir(), "sluice-shuffle-limited-"));
    onTestFinished(() => rmSync(own, { recursive: true }));
    const barrier = new URL("../../src/dataset/barrier.ts", import.meta.url);
    const program = `
      const { shuffled } = await import("${barrier}");
      async function* lines() { for (let at = 0; at < 3000; at++) yield "x".repeat(1024); }
      const random = { next: () => 0.5 };
      const rows = shuffled(lines(), { random, directory: "${own}", maxChars: 2000 });
      console.log(await rows.next().then(() => "none", ({ code }) => code));`;
    // A file may have 512 KiB: the next write fails, as on a failing disk.
    const node = 'ulimit -f 512; exec "$0" --input-type=module --eval "$1"';
    const { stdout, status } = spawnSync("bash", ["-c", node, process.execPath, program]);
    expect([String(stdout).trim(), status]).toEqual(["STORE_FAILED", 0]);
  });

  it("leaves no lines behind", async () => {
    await orderOf(numbers(300), 1, 50);
    const files = readdirSync(directory, { recursive: true, withFileTypes: true });
    expect(files.filter((entry) => entry.isFile())).toEqual([]);
  });
});
