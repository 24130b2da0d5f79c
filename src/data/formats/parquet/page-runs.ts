import type { PageHeader } from "hyparquet";
import { decompressPage } from "hyparquet/src/datapage.js";
import { getMaxDefinitionLevel, getMaxRepetitionLevel } from "hyparquet/src/schema.js";
import type { ColumnDecoder } from "hyparquet/src/types.js";

/** The head of a run has at most this many bytes, and a number in a run as many. */
const maxVarintBytes = 5;
const maxBits = 32;

/** A decompressed page of data, in the form in which the library reads it. */
export interface OpenedPage {
  bytes: Uint8Array;
  /** Places without a value; in a nested column also empty lists. */
  nulls: number;
}

/**
 * Decompresses a page of data and checks its runs of levels and indexes. The library makes as many
 * values as a run claims, and never ends if the number is negative.
 *
 * @throws Error if the page is damaged.
 */
export function openedPage(
  header: PageHeader,
  bytes: Uint8Array,
  decoder: ColumnDecoder,
): OpenedPage {
  const page = decompressed(header, bytes, decoder);
  const runs = Buffer.from(page.buffer, page.byteOffset, page.length);
  return { bytes: page, nulls: checkPageRuns(header, runs, decoder) };
}

function decompressed(
  header: PageHeader,
  bytes: Uint8Array,
  { codec, compressors }: ColumnDecoder,
): Uint8Array {
  const v2 = header.data_page_header_v2;
  if (!v2) return decompressPage(bytes, header.uncompressed_page_size, codec, compressors);
  const { definition_levels_byte_length, repetition_levels_byte_length } = v2;
  const levelBytes = definition_levels_byte_length + repetition_levels_byte_length;
  const bodyBytes = header.uncompressed_page_size - levelBytes;
  const isWithin = repetition_levels_byte_length >= 0 && definition_levels_byte_length >= 0;
  if (!isWithin || levelBytes > bytes.length || bodyBytes < 0) throw damaged();
  const isPlain = codec === "UNCOMPRESSED" && bytes.length === header.uncompressed_page_size;
  if (v2.is_compressed === false || isPlain) return bytes;
  const levels = bytes.subarray(0, levelBytes);
  if (bodyBytes === 0) return levels;
  const body = decompressPage(bytes.subarray(levelBytes), bodyBytes, codec, compressors);
  return Buffer.concat([levels, body]);
}

/** @returns the number of nulls in the page. */
function checkPageRuns(header: PageHeader, page: Buffer, decoder: ColumnDecoder): number {
  const { data_page_header: v1, data_page_header_v2: v2 } = header;
  const { num_values: values, encoding } = (v1 ?? v2)!;
  const maxLevels = [
    getMaxRepetitionLevel(decoder.schemaPath),
    getMaxDefinitionLevel(decoder.schemaPath),
  ];
  const lengths = [v2?.repetition_levels_byte_length, v2?.definition_levels_byte_length];
  let nulls = 0;
  let at = 0;
  for (const [number, maxLevel] of maxLevels.entries()) {
    if (maxLevel === 0) continue;
    const length = lengths[number] ?? page.readUInt32LE(at);
    if (!v2) at += 4;
    // Definition levels come last. Only a value has the highest level.
    nulls = values - checkRuns(page.subarray(at), 32 - Math.clz32(maxLevel), values, maxLevel);
    at += length;
  }
  if (encoding === "RLE") checkRuns(page.subarray(at + 4), 1, values);
  else if (encoding?.endsWith("_DICTIONARY") && at < page.length) {
    const bits = decoder.type === "BOOLEAN" ? 1 : page[at]!;
    checkRuns(page.subarray(decoder.type === "BOOLEAN" ? at + 4 : at + 1), bits, values);
  }
  return nulls;
}

/**
 * Checks runs of up to `values` numbers. Nulls have no number, so there may be fewer.
 *
 * @returns how many of the numbers equal `counted`, which has at most 17 bits.
 * @throws Error if a run is impossible.
 */
export function checkRuns(
  bytes: Uint8Array,
  bits: number,
  values: number,
  counted?: number,
): number {
  if (bits > maxBits) throw damaged();
  let found = 0;
  let at = 0;
  for (let seen = 0; seen < values && at < bytes.length; ) {
    let head = 0;
    let length = 0;
    for (let hasMore = true; hasMore; length++) {
      const byte = bytes[at + length];
      if (byte === undefined) return found;
      if (length === maxVarintBytes) throw damaged();
      head += (byte & 0x7f) * 2 ** (7 * length);
      hasMore = byte >= 0x80;
    }
    const isPacked = head % 2 === 1;
    const count = Math.floor(head / 2) * (isPacked ? 8 : 1);
    // Numbers are packed by eight, so the last ones may be padding.
    if (count > values + (isPacked ? maxPackedRest : 0)) throw damaged();
    at += length;
    const kept = Math.min(count, values - seen);
    if (counted !== undefined) {
      if (isPacked) found += countPacked(bytes, at, bits, kept, counted);
      else if (numberAt(bytes, at, 0, bits) === counted) found += kept;
    }
    at += isPacked ? (count / 8) * bits : Math.ceil(bits / 8);
    seen += count;
  }
  return found;
}

function countPacked(
  bytes: Uint8Array,
  start: number,
  bits: number,
  count: number,
  counted: number,
): number {
  let found = 0;
  for (let bit = 0; bit < count * bits; bit += bits) {
    if (numberAt(bytes, start + (bit >> 3), bit & 7, bits) === counted) found++;
  }
  return found;
}

/** A number of at most 17 bits that begins at a bit of a byte. */
function numberAt(bytes: Uint8Array, at: number, bit: number, bits: number): number {
  const wide = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16);
  return (wide >> bit) & ((1 << bits) - 1);
}

/** Numbers after the last value: some writers fill up the run that they began. */
const maxPackedRest = 512;

function damaged(): Error {
  return new Error("runs of a page are damaged");
}
