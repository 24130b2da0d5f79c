import { describe, expect, it } from "vitest";
import {
  type BlockFormat,
  blockFormats,
  q8BlockBytes,
  toQ8Blocks,
} from "../../../../src/engines/llama/repack/blocks.ts";
import { float16Values } from "../../../../src/engines/llama/repack/float16.ts";
import { randomInteger, seededRandom } from "../../../../src/foundation/random.ts";

const one = [0x00, 0x3c];
const half = [0x00, 0x38];
const minusTwo = [0x00, 0xc0];

function read(name: string, bytes: number[]): number[] {
  const format = formatOf(name);
  expect(bytes).toHaveLength(format.blockBytes);
  const weights = new Float32Array(format.blockWeights);
  // A byte before the block: a reader that forgets where it begins reads it.
  format.read(Uint8Array.from([0xff, ...bytes]), 1, weights);
  return [...weights];
}

function formatOf(name: string): BlockFormat {
  return Object.values(blockFormats).find((format) => format.name === name)!;
}

const zeros = (count: number): number[] => new Array<number>(count).fill(0);
const counted = (count: number, of: (index: number) => number) =>
  Array.from({ length: count }, (_, index) => of(index));

describe("blockFormats", () => {
  it("reads Q4_1: lower halves of the bytes first, then the upper ones", () => {
    const pairs = counted(16, (index) => index | ((15 - index) << 4));
    expect(read("Q4_1", [...half, ...minusTwo, ...pairs])).toEqual([
      ...counted(16, (index) => index * 0.5 - 2),
      ...counted(16, (index) => (15 - index) * 0.5 - 2),
    ]);
  });

  it("reads Q5_0: the fifth bit of weight n is bit n, and 16 is subtracted", () => {
    const fifthBits = [0b0000_0001, 0, 0b0000_0010, 0b1000_0000];
    const pairs = counted(16, () => 0x53);
    const expected = counted(32, (index) => {
      const steps = (index < 16 ? 3 : 5) + ([0, 17, 31].includes(index) ? 16 : 0);
      return (steps - 16) * 0.5;
    });
    expect(read("Q5_0", [...half, ...fifthBits, ...pairs])).toEqual(expected);
  });

  it("reads Q5_1: as Q5_0, with a minimum", () => {
    const fifthBits = [0, 0b0000_0100, 0, 0b0000_0001];
    const pairs = counted(16, (index) => (index === 10 ? 0x0f : 0x10));
    const expected = counted(32, (index) => {
      if (index < 16) return (index === 10 ? 15 + 16 : 0) - 2;
      return (index === 26 ? 0 : 1) + (index === 24 ? 16 : 0) - 2;
    });
    expect(read("Q5_1", [...one, ...minusTwo, ...fifthBits, ...pairs])).toEqual(expected);
  });

  it("reads Q5_K: six bits of scale and minimum a group, upper bits packed with others'", () => {
    const scales = zeros(12);
    scales[1] = 3; // group 1: scale 3
    scales[5] = 2; // group 1: minimum 2
    scales[2] = 0b1000_0000; // group 6: upper bits of the scale
    scales[6] = 0b0100_0000; // group 6: upper bits of the minimum
    scales[10] = 0x51; // group 6: lower bits, scale 1, minimum 5
    const fifthBits = zeros(32);
    fifthBits[4] = 1 << 1; // weight 4 of group 1
    fifthBits[9] = 1 << 6; // weight 9 of group 6
    const pairs = zeros(128);
    pairs[4] = 0x70; // weight 4 of group 1 (upper half of the first 32 bytes)
    pairs[96 + 9] = 0x0e; // weight 9 of group 6 (lower half of the last 32 bytes)
    const weights = read("Q5_K", [...half, ...one, ...scales, ...fifthBits, ...pairs]);
    const expected = counted(256, (index) => {
      const group = index >> 5;
      if (group === 1) return (index === 32 + 4 ? 7 + 16 : 0) * 1.5 - 2;
      if (group === 6) return (index === 192 + 9 ? 14 + 16 : 0) * 16.5 - 21;
      return 0;
    });
    expect(weights.map((weight) => weight + 0)).toEqual(expected);
  });

  it("reads Q6_K: four runs of 32 a half, signed scales of 16 weights", () => {
    const low = zeros(128);
    const high = zeros(64);
    const scales = zeros(16);
    low[64 + 32 + 20] = 0x90; // second half, run 3, weight 20: lower four bits 9
    high[32 + 20] = 0b1100_0000; // … and upper two bits 3
    scales[8 + 2 * 3 + 1] = 0xfe; // second half, run 3, weights 16 to 31: scale -2
    const weights = read("Q6_K", [...low, ...high, ...scales, ...half]);
    const expected = counted(256, (index) => {
      if (index < 128 + 96 + 16) return 0;
      return 0.5 * -2 * ((index === 128 + 96 + 20 ? 9 + 48 : 0) - 32);
    });
    expect(weights.map((weight) => weight + 0)).toEqual(expected);
  });
});

/** Blocks of random bytes whose 16-bit factors are small numbers. */
function randomBlocks(format: BlockFormat, count: number, seed: number): Buffer {
  const random = seededRandom(seed);
  const bytes = Buffer.from(counted(count * format.blockBytes, () => randomInteger(random, 256)));
  const factorsAt = { Q5_0: [0], Q6_K: [208] }[format.name] ?? [0, 2];
  for (let block = 0; block < count; block++) {
    for (const at of factorsAt) bytes[block * format.blockBytes + at + 1]! &= 0b1011_1111;
  }
  return bytes;
}

function readQ8(bytes: Buffer): number[] {
  return counted((bytes.length / q8BlockBytes) * 32, (index) => {
    const at = Math.floor(index / 32) * q8BlockBytes;
    return float16Values[bytes.readUInt16LE(at)]! * bytes.readInt8(at + 2 + (index % 32));
  });
}

describe("toQ8Blocks", () => {
  it("makes the largest 127 steps, and rounds the rest to the nearest", () => {
    // Weights 0, 1, … 15 twice: a step is 15/127, as a 16-bit float 0x2f8f.
    const pairs = counted(16, (index) => index * 17);
    const bytes = toQ8Blocks(formatOf("Q4_1"), Uint8Array.from([...one, 0, 0, ...pairs]));
    const step = float16Values[0x2f8f]!;
    const steps = counted(16, (index) => Math.round(index / step));
    expect([...bytes]).toEqual([0x8f, 0x2f, ...steps, ...steps]);
    expect(bytes[2 + 15]).toBe(127);
  });

  it("keeps signs, and weights that are all zero", () => {
    const signs = toQ8Blocks(
      formatOf("Q4_1"),
      Uint8Array.from([...one, 0x00, 0xbc, ...counted(16, () => 0x20)]),
    );
    // 1/127 as a 16-bit float is 1032 × 2^-17.
    const largest = 127 * 1032 * 2 ** -17;
    expect(readQ8(signs).slice(15, 17)).toEqual([-largest, largest]);
    expect([...toQ8Blocks(formatOf("Q4_1"), new Uint8Array(20))]).toEqual(zeros(q8BlockBytes));
  });

  it.each(Object.values(blockFormats))(
    "moves no weight of $name by more than it says",
    (format) => {
      const blocks = 50;
      const bytes = randomBlocks(format, blocks, 7);
      const repacked = readQ8(toQ8Blocks(format, bytes));
      expect(repacked).toHaveLength(blocks * format.blockWeights);
      const weights = new Float32Array(format.blockWeights);
      let worst = 0;
      for (let block = 0; block < blocks; block++) {
        format.read(bytes, block * format.blockBytes, weights);
        for (let first = 0; first < format.blockWeights; first += 32) {
          const group = [...weights.subarray(first, first + 32)];
          const largest = Math.max(...group.map(Math.abs));
          // Half a step, plus what the 16-bit scale is off by over 127 steps.
          const bound = largest * (1 / 254 + 2 ** -11) + 127 * 2 ** -25;
          for (const [index, weight] of group.entries()) {
            const moved = Math.abs(repacked[block * format.blockWeights + first + index]! - weight);
            worst = Math.max(worst, bound === 0 ? moved : moved / bound);
          }
        }
      }
      expect(worst).toBeLessThanOrEqual(1);
      expect(worst).toBeGreaterThan(0.3);
    },
  );
});
