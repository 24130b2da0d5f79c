import type { ColumnMetaData, Compressors as Decompressors, PageHeader } from "hyparquet";
import { parquetHeader } from "hyparquet/src/column.js";
import { decompressPage } from "hyparquet/src/datapage.js";
import { writePageHeader } from "hyparquet-writer/src/datapage.js";
import type { Writer } from "hyparquet-writer/src/types.js";
import { limits } from "../../../foundation/limits.ts";
import type { ChunkStream } from "./chunk-stream.ts";
import { chunkPlace } from "./footer.ts";
import type { PageCodec } from "./page-codecs.ts";

/** Largest header of a page, including bounds that are long texts. */
const maxHeaderBytes = limits.readChunkBytes;

/** The pages of a column, for another file to copy. */
export interface CopiedChunk {
  stream: ChunkStream;
  /** Path of the column in the other file's schema. */
  path: string[];
  /** Whether the column's bounds are as exact as the file says. */
  keepsBounds: boolean;
  /** Whether the file's count of nulls can be trusted. */
  keepsNulls: boolean;
  decompressors: Decompressors;
}

/**
 * Copies the pages of a column from another file, unchanged or with another compression. It yields
 * now and then, so that written bytes can be taken away.
 *
 * @returns the metadata of the copied column.
 */
export async function* copyChunk(
  writer: Writer,
  chunk: CopiedChunk,
  target: PageCodec,
): AsyncGenerator<undefined, ColumnMetaData> {
  const { stream, path } = chunk;
  const { meta } = stream;
  const start = writer.offset;
  const copy = meta.codec === target.codec ? copyAsItIs : copyPages;
  const copied = yield* copy(writer, chunk, target);
  const { type, encodings, num_values, encoding_stats } = meta;
  return {
    ...{ type, encodings, num_values, path_in_schema: path, codec: target.codec },
    ...copied,
    total_compressed_size: BigInt(writer.offset - start),
    statistics: statisticsOf(chunk),
    ...(encoding_stats && { encoding_stats }),
  };
}

type Places = Pick<
  ColumnMetaData,
  "total_uncompressed_size" | "dictionary_page_offset" | "data_page_offset"
>;

async function* copyAsItIs(
  writer: Writer,
  { stream }: CopiedChunk,
): AsyncGenerator<undefined, Places> {
  const { meta } = stream;
  const { start } = chunkPlace(meta);
  const distance = BigInt(writer.offset - start);
  const { dictionary_page_offset: dictionary, data_page_offset: data } = meta;
  while (!stream.isAtEnd) {
    const piece = await stream.peek(limits.readChunkBytes);
    writer.appendBytes(piece);
    yield;
    stream.skip(piece.length);
  }
  return {
    total_uncompressed_size: meta.total_uncompressed_size,
    ...(dictionary && dictionary < data && { dictionary_page_offset: dictionary + distance }),
    data_page_offset: data + distance,
  };
}

async function* copyPages(
  writer: Writer,
  { stream, decompressors }: CopiedChunk,
  target: PageCodec,
): AsyncGenerator<undefined, Places> {
  const { meta } = stream;
  let uncompressedBytes = 0;
  let dictionary: number | undefined;
  let data: number | undefined;
  for (let values = 0; values < meta.num_values; ) {
    const header = await nextHeader(stream);
    const pageBytes = header.compressed_page_size;
    const page = (await stream.peek(pageBytes)).subarray(0, pageBytes);
    if (header.type === "DICTIONARY_PAGE") dictionary = writer.offset;
    else data ??= writer.offset;
    values += (header.data_page_header ?? header.data_page_header_v2)?.num_values ?? 0;
    if (header.type !== "INDEX_PAGE") {
      const [levels, body] = splitPage(header, page, meta, decompressors);
      const packed = target.compressors[target.codec]?.(body) ?? body;
      const headerStart = writer.offset;
      writePageHeader(writer, headerOf(header, levels.length + packed.length, target));
      uncompressedBytes += writer.offset - headerStart + levels.length + body.length;
      writer.appendBytes(levels);
      writer.appendBytes(packed);
      yield;
    }
    stream.skip(pageBytes);
  }
  return {
    total_uncompressed_size: BigInt(uncompressedBytes),
    ...(dictionary !== undefined && { dictionary_page_offset: BigInt(dictionary) }),
    data_page_offset: BigInt(data!),
  };
}

/** Reads the header of the next page. Its length is known only after it was read. */
async function nextHeader(stream: ChunkStream): Promise<PageHeader> {
  const bytes = await stream.peek(maxHeaderBytes);
  const reader = {
    view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    offset: 0,
  };
  const header = parquetHeader(reader);
  stream.skip(reader.offset);
  return header;
}

/** Splits a page into the part that is never compressed and the decompressed rest. */
function splitPage(
  header: PageHeader,
  page: Uint8Array,
  { codec }: ColumnMetaData,
  decompressors: Decompressors,
): [levels: Uint8Array, body: Uint8Array] {
  const v2 = header.data_page_header_v2;
  const levelBytes = v2 ? v2.definition_levels_byte_length + v2.repetition_levels_byte_length : 0;
  const levels = page.subarray(0, levelBytes);
  const body = page.subarray(levelBytes);
  const bodyBytes = header.uncompressed_page_size - levelBytes;
  if (bodyBytes === 0 || v2?.is_compressed === false) return [levels, body.subarray(0, bodyBytes)];
  return [levels, decompressPage(body, bodyBytes, codec, decompressors)];
}

function headerOf(header: PageHeader, compressedBytes: number, target: PageCodec): PageHeader {
  const { crc: _, data_page_header_v2: v2, ...rest } = header;
  return {
    ...rest,
    compressed_page_size: compressedBytes,
    ...(v2 && {
      data_page_header_v2: { ...v2, is_compressed: target.codec !== "UNCOMPRESSED" },
    }),
  };
}

/** The older fields for bounds are left out: some writers compared bytes as signed numbers. */
function statisticsOf({
  stream,
  keepsBounds,
  keepsNulls,
}: CopiedChunk): ColumnMetaData["statistics"] {
  const { meta } = stream;
  if (!meta.statistics) return undefined;
  const { min_value, max_value, ...rest } = meta.statistics;
  const null_count = keepsNulls ? rest.null_count : undefined;
  if (!keepsBounds || min_value === undefined || max_value === undefined) return { null_count };
  const { is_min_value_exact, is_max_value_exact } = rest;
  return { null_count, min_value, max_value, is_min_value_exact, is_max_value_exact };
}
