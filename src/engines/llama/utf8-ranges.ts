/** Bytes from `from` up to and including `to`. */
export interface ByteRange {
  from: number;
  to: number;
}

const lastOfLength = [0x7f, 0x7ff, 0xffff, 0x10ffff];
const surrogates = { from: 0xd800, to: 0xdfff };

/**
 * The UTF-8 encodings of a range of code points, as alternatives of consecutive byte ranges.
 * Surrogates, which have no encoding, are left out.
 *
 * The range is cut until all encodings of a piece have the same length and each byte of them has a
 * full range (the method of Ken Thompson's grep, as Russ Cox describes it in "Regular Expression
 * Matching in the Wild", 2010).
 */
export function utf8Ranges(from: number, to: number): ByteRange[][] {
  if (from > to) return [];
  if (from <= surrogates.to && to >= surrogates.from) {
    return [...utf8Ranges(from, surrogates.from - 1), ...utf8Ranges(surrogates.to + 1, to)];
  }
  for (const last of lastOfLength) {
    if (from <= last && to > last) return [...utf8Ranges(from, last), ...utf8Ranges(last + 1, to)];
  }
  // A piece spans whole blocks of continuation bytes, or lies within one block.
  for (let bits = 6; bits <= 18 && to > 0x7f; bits += 6) {
    const block = (1 << bits) - 1;
    if (from >> bits === to >> bits) break;
    if ((from & block) !== 0) {
      return [...utf8Ranges(from, from | block), ...utf8Ranges((from | block) + 1, to)];
    }
    if ((to & block) !== block) {
      return [...utf8Ranges(from, (to & ~block) - 1), ...utf8Ranges(to & ~block, to)];
    }
  }
  const first = Buffer.from(String.fromCodePoint(from));
  const last = Buffer.from(String.fromCodePoint(to));
  return [Array.from(first, (byte, at) => ({ from: byte, to: last[at]! }))];
}
