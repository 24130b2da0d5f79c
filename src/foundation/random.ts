import { randomBytes } from "node:crypto";

/** The source of random numbers, in [0, 1). */
export interface Random {
  next(): number;
}

/**
 * A generator whose numbers depend on its seed alone (SplitMix32).
 *
 * Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
 * @example
 * seededRandom(7).next() === seededRandom(7).next(); // true
 */
export function seededRandom(seed: number): Random {
  let state = seed | 0;
  return {
    next() {
      state = (state + 0x9e3779b9) | 0;
      return mix32(state) / 0x1_0000_0000;
    },
  };
}

/** Scrambles 32 bits so that neighbouring inputs give unrelated outputs; the result is unsigned. */
export function mix32(value: number): number {
  let mixed = value ^ (value >>> 16);
  mixed = Math.imul(mixed, 0x21f0aaad);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x735a2d97);
  return (mixed ^ (mixed >>> 15)) >>> 0;
}

/** Bytes taken from the operating system at once: a call costs as much for 4 as for 4,096. */
const poolBytes = 4096;
let pool = Buffer.alloc(0);
let poolAt = 0;

/** Random numbers of the operating system, for ids and seeds. */
export const systemRandom: Random = {
  next() {
    if (poolAt === pool.length) {
      pool = randomBytes(poolBytes);
      poolAt = 0;
    }
    poolAt += 4;
    return pool.readUInt32LE(poolAt - 4) / 0x1_0000_0000;
  },
};

/** A whole number in [0, limit). */
export function randomInteger(random: Random, limit: number): number {
  return Math.floor(random.next() * limit);
}
