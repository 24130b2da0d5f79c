import { SluiceError } from "../../../foundation/errors.ts";
import { limits } from "../../../foundation/limits.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { unreadable } from "../unreadable.ts";
import { FlatTable, wholeNumber } from "./flat-table.ts";
import { type ArrowField, type ArrowSchema, decodeSchema, typeIds } from "./library.ts";
import { checkSchema, type Message, readMessage } from "./messages.ts";

/** An Arrow file, or a stream that was kept as one. */
export interface ArrowFile {
  schema: ArrowSchema;
  /** What says how everything else is read: the footer, or the schema of a stream. */
  head: Buffer;
  /**
   * The dictionaries and record batches in the order in which they are to be taken; of a range only
   * its batches, and the dictionaries that count for them.
   *
   * @throws SluiceError `INPUT_UNREADABLE`
   */
  messages(range?: { start: number; end: number }): AsyncIterable<Message>;
}

const fileMark = "ARROW1";
/** The length of the footer and the mark end every file; the mark and two bytes begin it. */
const trailerBytes = 10;
const startBytes = 8;
/** Read at once, so that most footers take one read. */
const tailBytes = 64 * 1024;
const blockBytes = 24;

/**
 * Reads what a file says of itself.
 *
 * @throws SluiceError `INPUT_UNREADABLE` where it is truncated, damaged, or no Arrow.
 */
export async function openArrow(reader: RandomReader, file: string): Promise<ArrowFile> {
  if (!Number.isFinite(reader.bytes)) {
    const hint = "decompress it first: Arrow compresses its own buffers";
    throw unreadable(file, "an Arrow file cannot be read within another compression", { hint });
  }
  const start = Buffer.from(await reader.read(0, Math.min(startBytes, reader.bytes)));
  if (start.toString("latin1", 0, 4) === "FEA1") {
    const hint = "write it anew: feather.write_feather(feather.read_table(path), path) of pyarrow";
    throw unreadable(file, "it is Feather of version 1, which is not Arrow", { hint });
  }
  const isFile = start.toString("latin1", 0, fileMark.length) === fileMark;
  return await (isFile ? openFile(reader, file) : openStream(reader, file));
}

async function openFile(reader: RandomReader, file: string): Promise<ArrowFile> {
  const head = await footerBytes(reader, file);
  const dataEnd = reader.bytes - trailerBytes - head.length;
  try {
    const footer = new FlatTable(head, 0);
    const schemaTable = footer.table(6);
    if (!schemaTable) throw new Error("it has no schema");
    checkSchema(schemaTable);
    const schema = decodeSchema(head, footer.place(6)!, footer.int16(4));
    const dictionaries = footer.entries(8, blockBytes).map((block) => wholeNumber(block, 0));
    const batches = footer.entries(10, blockBytes).map((block) => wholeNumber(block, 0));
    const blocks = { dictionaries, batches, dataEnd };
    assertReadable(schema, file);
    return { schema, head, messages: (range) => fileMessages(reader, file, blocks, range) };
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    const place = `its footer, bytes ${dataEnd} to the end`;
    throw unreadable(file, `${place}, is damaged: ${(cause as Error).message}`, { cause });
  }
}

async function footerBytes(reader: RandomReader, file: string): Promise<Buffer> {
  const tailStart = Math.max(0, reader.bytes - tailBytes);
  const tail = Buffer.from(await reader.read(tailStart, reader.bytes - tailStart));
  const mark = tail.toString("latin1", tail.length - fileMark.length);
  if (reader.bytes < startBytes + trailerBytes || mark !== fileMark) {
    throw unreadable(file, `no footer ends at byte ${reader.bytes}: it is truncated`);
  }
  const length = tail.readUInt32LE(tail.length - trailerBytes);
  const most = reader.bytes - trailerBytes - startBytes;
  if (length > Math.min(most, limits.maxArrowMetadataBytes)) {
    throw unreadable(file, `its footer says it has ${length} bytes, the file ${reader.bytes}`);
  }
  const end = tail.length - trailerBytes;
  if (length <= end) return Buffer.from(tail.subarray(end - length, end));
  return Buffer.from(await reader.read(reader.bytes - trailerBytes - length, length));
}

interface Blocks {
  /** Where messages begin. */
  dictionaries: readonly number[];
  batches: readonly number[];
  dataEnd: number;
}

/** In files a dictionary may stand behind what uses it. */
async function* fileMessages(
  reader: RandomReader,
  file: string,
  { dictionaries, batches, dataEnd }: Blocks,
  range = { start: 0, end: dataEnd },
): AsyncGenerator<Message> {
  const read = async (start: number, kind: Message["kind"]) => {
    const message = await readMessage(reader, file, start, dataEnd);
    if (message?.kind === kind) return message;
    throw unreadable(file, `its footer is damaged: no ${kind} lies at byte ${start}`);
  };
  for (const start of dictionaries) yield await read(start, "dictionary");
  let before = 0;
  for (const start of batches) {
    if (start < range.start || start >= range.end) continue;
    if (start < before) throw unreadable(file, `the batch at byte ${start} overlaps another`);
    const message = await read(start, "batch");
    before = message.end;
    yield message;
  }
}

async function openStream(reader: RandomReader, file: string): Promise<ArrowFile> {
  const first = await readMessage(reader, file, 0).catch((cause) => {
    throw unreadable(file, "it does not begin as Arrow does", { cause });
  });
  if (first?.kind !== "schema") throw unreadable(file, "it does not begin with a schema");
  const schema = streamSchema(first, file);
  assertReadable(schema, file);
  const hasDictionaries = schema.fields.some(hasDictionary);
  return {
    schema,
    head: first.metadata,
    async *messages(range = { start: first.end, end: reader.bytes }) {
      // Only the batches behind a dictionary know of it, and it may be replaced.
      let at = hasDictionaries ? first.end : range.start;
      while (at < range.end) {
        const message = await readMessage(reader, file, at);
        if (message === undefined) return;
        at = message.end;
        if (message.kind === "batch" && message.start < range.start) continue;
        const isUsed = message.kind === "dictionary" && hasDictionaries;
        if (message.kind === "batch" || isUsed) yield message;
      }
    },
  };
}

function streamSchema({ metadata, place, version }: Message, file: string): ArrowSchema {
  try {
    return decodeSchema(metadata, place, version);
  } catch (cause) {
    throw unreadable(file, `its schema is damaged: ${(cause as Error).message}`, { cause });
  }
}

function hasDictionary({ type }: ArrowField): boolean {
  return type.typeId === typeIds.dictionary || (type.children ?? []).some(hasDictionary);
}

function assertReadable({ endianness }: ArrowSchema, file: string): void {
  if (endianness === 0) return;
  throw unreadable(file, "its numbers are big-endian", { hint: "write it on another machine" });
}
