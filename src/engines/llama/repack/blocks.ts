import { float16Values, toFloat16Bits } from "./float16.ts";

/** Number of `Q8_0` among ggml's tensor types, and of the file type that is mostly that. */
export const q8Type = 8;
export const q8FileType = 7;
/** A block of `Q8_0`: a 16-bit scale, then 32 signed bytes; a weight is scale × byte. */
export const q8BlockBytes = 34;
export const q8BlockWeights = 32;

/** A format of weights that can be turned into numbers. */
export interface BlockFormat {
  name: string;
  blockBytes: number;
  blockWeights: number;
  /** Writes the weights of the block that begins at `at` into `weights`. */
  read(bytes: Uint8Array, at: number, weights: Float32Array): void;
}

/**
 * The formats that can be repacked, by the number of the ggml type. Layouts are those of ggml:
 * `ggml/src/ggml-common.h` and `dequantize_row_*` in `ggml/src/ggml-quants.c` of llama.cpp.
 *
 * They are those that some processor computes much slower than `Q8_0` in batches. Measured on
 * 2026-11-21 with node-llama-cpp 3.22.1 on an Intel Xeon: tokens per second of CPU time (so that
 * neighbours do not count), one thread, a llama model of 12 layers of 768 with random weights of
 * one format, 16 sequences, 32 new tokens each. The library chooses among its builds by the
 * processor; the second and third column are of the same machine without the better builds.
 *
 * | format | AMX | AVX-512 | AVX2 |
 * |---|---|---|---|
 * | Q8_0, first and last | 427, 403 | 181, 173 | 147, 130 |
 * | Q4_1 | 385 | 109 | 99 |
 * | Q5_0 | 164 | 172 | 117 |
 * | Q5_1 | 81 | 84 | 84 |
 * | Q5_K | 318 | 112 | 101 |
 * | Q6_K | 225 | 130 | 114 |
 * | Q4_0, Q4_K (left alone) | 406, 344 | 260, 267 | 180, 198 |
 *
 * `Q3_K` is as slow (113, 113, 99), but would take two and a half times its memory. The table only
 * says what is worth a try: the machine at hand is measured before a repacked file is used.
 */
export const blockFormats: Readonly<Record<number, BlockFormat>> = {
  3: { name: "Q4_1", blockBytes: 20, blockWeights: 32, read: readQ41 },
  6: { name: "Q5_0", blockBytes: 22, blockWeights: 32, read: readQ50 },
  7: { name: "Q5_1", blockBytes: 24, blockWeights: 32, read: readQ51 },
  13: { name: "Q5_K", blockBytes: 176, blockWeights: 256, read: readQ5K },
  14: { name: "Q6_K", blockBytes: 210, blockWeights: 256, read: readQ6K },
};

/** 4 bits a weight: a 16-bit scale, a 16-bit minimum, 16 bytes of two weights each. */
function readQ41(bytes: Uint8Array, at: number, weights: Float32Array): void {
  const scale = float16At(bytes, at);
  const minimum = float16At(bytes, at + 2);
  for (let index = 0; index < 16; index++) {
    const pair = bytes[at + 4 + index]!;
    weights[index] = (pair & 15) * scale + minimum;
    weights[index + 16] = (pair >> 4) * scale + minimum;
  }
}

/** 5 bits a weight, less 16: a 16-bit scale, 4 bytes of fifth bits, 16 of two weights each. */
function readQ50(bytes: Uint8Array, at: number, weights: Float32Array): void {
  const scale = float16At(bytes, at);
  readFiveBits(bytes, at + 2, weights);
  for (let index = 0; index < 32; index++) weights[index] = (weights[index]! - 16) * scale;
}

/** 5 bits a weight: as `Q5_0`, with a 16-bit minimum after the scale instead of the 16. */
function readQ51(bytes: Uint8Array, at: number, weights: Float32Array): void {
  const scale = float16At(bytes, at);
  const minimum = float16At(bytes, at + 2);
  readFiveBits(bytes, at + 4, weights);
  for (let index = 0; index < 32; index++) weights[index] = weights[index]! * scale + minimum;
}

function readFiveBits(bytes: Uint8Array, at: number, steps: Float32Array): void {
  const fifth = (index: number) => ((bytes[at + (index >> 3)]! >> (index & 7)) & 1) << 4;
  for (let index = 0; index < 16; index++) {
    const pair = bytes[at + 4 + index]!;
    steps[index] = (pair & 15) + fifth(index);
    steps[index + 16] = (pair >> 4) + fifth(index + 16);
  }
}

/**
 * 5 bits a weight, in 8 groups of 32 with a scale and a minimum of 6 bits each: two 16-bit factors
 * of these, 12 bytes of scales and minima, 32 bytes of fifth bits (bit n is group n's), 128 bytes
 * of two weights each (32 bytes hold two groups).
 */
function readQ5K(bytes: Uint8Array, at: number, weights: Float32Array): void {
  const scaleFactor = float16At(bytes, at);
  const minimumFactor = float16At(bytes, at + 2);
  for (let group = 0; group < 8; group++) {
    const [scaleSteps, minimumSteps] = scaleAndMinimum(bytes, at + 4, group);
    const scale = scaleFactor * scaleSteps;
    const minimum = minimumFactor * minimumSteps;
    const pairsAt = at + 48 + (group >> 1) * 32;
    const shift = (group & 1) * 4;
    for (let index = 0; index < 32; index++) {
      const fifth = ((bytes[at + 16 + index]! >> group) & 1) << 4;
      const steps = ((bytes[pairsAt + index]! >> shift) & 15) + fifth;
      weights[group * 32 + index] = steps * scale - minimum;
    }
  }
}

/** Of groups 4 to 7 the upper two bits stand in the upper two bits of what is groups 0 to 3's. */
function scaleAndMinimum(bytes: Uint8Array, at: number, group: number): [number, number] {
  const low = bytes[at + group]!;
  const high = bytes[at + group + 4]!;
  if (group < 4) return [low & 63, high & 63];
  return [(high & 15) | ((bytes[at + group - 4]! >> 6) << 4), (high >> 4) | ((low >> 6) << 4)];
}

/**
 * 6 bits a weight, 32 subtracted, in 16 groups of 16 with a scale of a signed byte each: 128 bytes
 * of the lower four bits, 64 of the upper two, 16 scales, their 16-bit factor. Each half of 128
 * weights is four runs of 32: runs 0 and 2 share the first 32 bytes of lower bits, 1 and 3 the
 * second, and all four the bytes of upper bits.
 */
function readQ6K(bytes: Uint8Array, at: number, weights: Float32Array): void {
  const factor = float16At(bytes, at + 208);
  for (let run = 0; run < 8; run++) {
    const half = run >> 2;
    const quarter = run & 3;
    const lowAt = at + half * 64 + (quarter & 1) * 32;
    const highAt = at + 128 + half * 32;
    for (let index = 0; index < 32; index++) {
      const low = (bytes[lowAt + index]! >> ((quarter >> 1) * 4)) & 15;
      const high = (bytes[highAt + index]! >> (quarter * 2)) & 3;
      const scale = signed(bytes[at + 192 + run * 2 + (index >> 4)]!);
      weights[run * 32 + index] = factor * scale * ((low | (high << 4)) - 32);
    }
  }
}

function signed(byte: number): number {
  return (byte << 24) >> 24;
}

function float16At(bytes: Uint8Array, at: number): number {
  return float16Values[bytes[at]! | (bytes[at + 1]! << 8)]!;
}

/**
 * Turns whole blocks of a format into `Q8_0`. In each 32 weights the largest magnitude becomes 127
 * steps and the rest is rounded to the nearest step, so that no weight moves by more than about
 * half a step, which is 1/254 of the largest.
 */
export function toQ8Blocks(format: BlockFormat, bytes: Uint8Array): Buffer {
  const { blockBytes, blockWeights } = format;
  const perBlock = blockWeights / q8BlockWeights;
  const result = Buffer.allocUnsafe((bytes.length / blockBytes) * perBlock * q8BlockBytes);
  const weights = new Float32Array(blockWeights);
  for (let from = 0, to = 0; from < bytes.length; from += blockBytes) {
    format.read(bytes, from, weights);
    for (let first = 0; first < blockWeights; first += q8BlockWeights, to += q8BlockBytes) {
      writeQ8Block(weights, first, result, to);
    }
  }
  return result;
}

function writeQ8Block(weights: Float32Array, first: number, bytes: Uint8Array, at: number): void {
  let largest = 0;
  for (let index = 0; index < q8BlockWeights; index++) {
    largest = Math.max(largest, Math.abs(weights[first + index]!));
  }
  const scaleBits = toFloat16Bits(largest / 127);
  bytes[at] = scaleBits & 255;
  bytes[at + 1] = scaleBits >> 8;
  // Steps of the scale as it is stored: those of the exact one would add its own rounding.
  const stepsPerUnit = scaleBits === 0 ? 0 : 1 / float16Values[scaleBits]!;
  for (let index = 0; index < q8BlockWeights; index++) {
    const steps = Math.round(weights[first + index]! * stepsPerUnit);
    bytes[at + 2 + index] = Math.max(-127, Math.min(127, steps)) & 255;
  }
}
