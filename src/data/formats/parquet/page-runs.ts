import type { PageHeader } from "hyparquet";
import { decompressPage } from "hyparquet/src/datapage.js";
import { getMaxDefinitionLevel, getMaxRepetitionLevel } from "hyparquet/src/schema.js";
import type { ColumnDecoder } from "hyparquet/src/types.js";

/** No run has a longer head, and no number of a run more bits. */
const maxVarintBytes = 5;
const maxBits = 32;

/**
 * A page of data with what is compressed in it decompressed, as the library reads it of a file
 * without compression.
 *
 * @throws Error where it is damaged, runs of its levels and indexes included: the library makes as
 *   many values as a run says, and never ends with a negative count of them.
 */
export function openedPage(
  header: PageHeader,
  bytes: Uint8Array,
  decoder: ColumnDecoder,
): Uint8Array {
  const page = decompressed(header, bytes, decoder);
  checkPageRuns(header, Buffer.from(page.buffer, page.byteOffset, page.length), decoder);
  return page;
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

function checkPageRuns(header: PageHeader, page: Buffer, decoder: ColumnDecoder): void {
  const { data_page_header: v1, data_page_header_v2: v2 } = header;
  const { num_values: values, encoding } = (v1 ?? v2)!;
  const maxLevels = [
    getMaxRepetitionLevel(decoder.schemaPath),
    getMaxDefinitionLevel(decoder.schemaPath),
  ];
  const lengths = [v2?.repetition_levels_byte_length, v2?.definition_levels_byte_length];
  let at = 0;
  for (const [number, maxLevel] of maxLevels.entries()) {
    if (maxLevel === 0) continue;
    const length = lengths[number] ?? page.readUInt32LE(at);
    if (!v2) at += 4;
    checkRuns(page.subarray(at), 32 - Math.clz32(maxLevel), values);
    at += length;
  }
  if (encoding === "RLE") return checkRuns(page.subarray(at + 4), 1, values);
  if (!encoding?.endsWith("_DICTIONARY") || at >= page.length) return;
  const bits = decoder.type === "BOOLEAN" ? 1 : page[at]!;
  checkRuns(page.subarray(decoder.type === "BOOLEAN" ? at + 4 : at + 1), bits, values);
}

/**
 * Walks over runs of up to `values` numbers; nulls have none, so that fewer may be there.
 *
 * @throws Error where one cannot be.
 */
export function checkRuns(bytes: Uint8Array, bits: number, values: number): void {
  if (bits > maxBits) throw damaged();
  let at = 0;
  for (let seen = 0; seen < values && at < bytes.length; ) {
    let head = 0;
    let length = 0;
    for (let hasMore = true; hasMore; length++) {
      const byte = bytes[at + length];
      if (byte === undefined) return;
      if (length === maxVarintBytes) throw damaged();
      head += (byte & 0x7f) * 2 ** (7 * length);
      hasMore = byte >= 0x80;
    }
    const isPacked = head % 2 === 1;
    const count = Math.floor(head / 2) * (isPacked ? 8 : 1);
    // Numbers are packed by eights, so that the last of them may stand for none.
    if (count > values + (isPacked ? maxPackedRest : 0)) throw damaged();
    at += length + (isPacked ? (count / 8) * bits : Math.ceil(bits / 8));
    seen += count;
  }
}

/** Numbers beyond the last: writers fill up to a run that they had begun. */
const maxPackedRest = 512;

function damaged(): Error {
  return new Error("runs of a page are damaged");
}
