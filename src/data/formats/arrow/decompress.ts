import { zstdDecompressSync } from "node:zlib";

/** A byte of LZ4 expands to this many at most. */
const maxLz4Ratio = 255;
const frameMark = 0x184d2204;

/** The content of a zstd frame, which should have `length` bytes. */
export function decompressZstd(bytes: Uint8Array, length: number): Uint8Array {
  const content = zstdDecompressSync(bytes, { maxOutputLength: Math.max(1, length) });
  if (content.length !== length) throw new Error(`zstd gives ${content.length} of ${length} bytes`);
  // Typed arrays must begin at a multiple of eight bytes.
  return content.byteOffset % 8 === 0 ? content : Uint8Array.from(content);
}

/**
 * The content of an LZ4 frame, which should have `length` bytes. Its checksums are ignored, because
 * writers of Arrow make none.
 *
 * @throws Error if it is damaged.
 */
export function decompressLz4Frame(bytes: Uint8Array, length: number): Uint8Array {
  if (length > bytes.length * maxLz4Ratio) throw new Error("LZ4 cannot give so many bytes");
  const frame = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (frame.readUInt32LE(0) !== frameMark) throw new Error("it is not an LZ4 frame");
  const flags = frame[4]!;
  const [hasChecksums, hasLength, hasDictionary] = [flags & 16, flags & 8, flags & 1];
  let at = 7 + (hasLength ? 8 : 0) + (hasDictionary ? 4 : 0);
  const output = new Uint8Array(length);
  let end = 0;
  for (let head = frame.readUInt32LE(at); head !== 0; head = frame.readUInt32LE(at)) {
    const size = head & 0x7fffffff;
    const block = frame.subarray(at + 4, at + 4 + size);
    if (block.length < size) throw new Error("an LZ4 block is cut off");
    if (head >= 0x80000000) {
      output.set(block, end);
      end += size;
    } else {
      end = decompressBlock(block, output, end);
    }
    at += 4 + size + (hasChecksums ? 4 : 0);
  }
  if (end !== length) throw new Error(`LZ4 gives ${end} of ${length} bytes`);
  return output;
}

/** Writes a block's content after that of earlier blocks, to which it may refer. */
function decompressBlock(block: Uint8Array, output: Uint8Array, start: number): number {
  let at = 0;
  let end = start;
  const lengthOf = (first: number): number => {
    let length = first;
    if (first !== 15) return length;
    for (let more = 255; more === 255; length += more) {
      if (at >= block.length) throw new Error("an LZ4 block ends too early");
      more = block[at++]!;
    }
    return length;
  };
  while (at < block.length) {
    const token = block[at++]!;
    const literals = lengthOf(token >> 4);
    if (at + literals > block.length) throw new Error("an LZ4 block ends too early");
    output.set(block.subarray(at, at + literals), end);
    at += literals;
    end += literals;
    if (at === block.length) break;
    const distance = (block[at] ?? 0) | ((block[at + 1] ?? 0) << 8);
    at += 2;
    const copied = lengthOf(token & 15) + 4;
    if (distance === 0 || distance > end || end + copied > output.length) {
      throw new Error("an LZ4 block refers to what is not there");
    }
    if (distance >= copied) output.copyWithin(end, end - distance, end - distance + copied);
    else
      for (let step = 0; step < copied; step++) output[end + step] = output[end + step - distance]!;
    end += copied;
  }
  return end;
}
