import { type PageHeader, parquetMetadata } from "hyparquet";
import { parquetHeader } from "hyparquet/src/column.js";
import { parquetWriteBuffer } from "hyparquet-writer";

/** Where the first page of data of a file without compression begins, and its header. */
function firstPage(content: Buffer): { header: PageHeader; start: number } {
  const { row_groups } = parquetMetadata(new Uint8Array(content));
  const offset = Number(row_groups[0]!.columns[0]!.meta_data!.data_page_offset);
  const view = new DataView(content.buffer, content.byteOffset, content.length);
  const reader = { view, offset };
  const header = parquetHeader(reader);
  return { header, start: reader.offset };
}

function pageOfIndexes(): { content: Buffer; at: number } {
  const data = Array.from({ length: 300 }, (_, at) => `value ${at % 3}`);
  const column = { name: "text", data, type: "STRING", encoding: "RLE_DICTIONARY" } as const;
  const file = parquetWriteBuffer({ columnData: [column], codec: "UNCOMPRESSED" });
  const content = Buffer.from(file);
  const { header, start } = firstPage(content);
  const levels = header.data_page_header_v2!;
  const { definition_levels_byte_length, repetition_levels_byte_length } = levels;
  return { content, at: start + definition_levels_byte_length + repetition_levels_byte_length };
}

/** A file whose page says that it has a run of -8 indexes of 0 bits: the library never ends. */
export function negativeRunParquet(): Buffer {
  const { content, at } = pageOfIndexes();
  Buffer.from("00ffffffff0f", "hex").copy(content, at);
  return content;
}

/** A file whose page of 300 values says that it has a run of 2^31 - 1: the library makes them. */
export function hugeRunParquet(): Buffer {
  const { content, at } = pageOfIndexes();
  Buffer.from("02feffffff0f00", "hex").copy(content, at);
  return content;
}

const largeBytes = 4 * 1024 * 1024;

/** A file of one text, of which the first page begins with `head`, and goes on with one byte. */
function largePage(head: string, rest: number): Buffer {
  const column = { name: "text", type: "STRING" as const, data: ["x".repeat(largeBytes)] };
  const content = Buffer.from(parquetWriteBuffer({ columnData: [column], codec: "UNCOMPRESSED" }));
  const meta = parquetMetadata(new Uint8Array(content)).row_groups[0]!.columns[0]!.meta_data!;
  const start = Number(meta.data_page_offset);
  content.fill(rest, start, start + largeBytes);
  Buffer.from(head, "hex").copy(content, start);
  return content;
}

/** A file whose first page has a number of 29 million bits: the library takes hours for it. */
export function endlessParquet(): Buffer {
  return largePage("16", 0xff);
}

/** A file whose first page has a list of 4 million things, of a byte each in the file. */
export function crowdedParquet(): Buffer {
  return largePage("19fc80808002", 0);
}
