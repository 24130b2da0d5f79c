import { SluiceError } from "../../../foundation/errors.ts";
import { limits } from "../../../foundation/limits.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { unreadable } from "../unreadable.ts";
import { FlatTable, wholeNumber } from "./flat-table.ts";
import { type ArrowField, type ArrowSchema, decodeSchema, typeIds } from "./library.ts";
import { checkSchema, type Message, readMessage } from "./messages.ts";

/** An Arrow file, or a stream saved as a file. */
export interface ArrowFile {
  schema: ArrowSchema;
  /** What decides how the rest is read: the footer, or the schema of a stream. */
  head: Buffer;
  /**
   * The dictionaries and record batches in reading order. For a range: only its batches, and the
   * dictionaries that they use.
   *
   * @throws SluiceError `INPUT_UNREADABLE`
   */
  messages(range?: { start: number; end: number }): AsyncIterable<Message>;
}

const fileMark = "ARROW1";
/** The footer's length and the magic bytes end every file; the magic and two bytes begin it. */
const trailerBytes = 10;
const startBytes = 8;
/** Bytes of the first read; it contains most footers. */
const tailBytes = 64 * 1024;
const blockBytes = 24;

/**
 * Reads the metadata of a file.
 *
 * @throws SluiceError `INPUT_UNREADABLE` if it is truncated, damaged, or not Arrow.
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
    const dictionaries = footer.entries(8, blockBytes).map(blockOf);
    const batches = footer.entries(10, blockBytes).map(blockOf);
    const blocks = { dictionaries, batches, dataEnd };
    assertReadable(schema, file);
    const messages: ArrowFile["messages"] = (range) => fileMessages(reader, file, blocks, range);
    return { schema, head, messages: (range) => checkedNodes(messages(range), schema, file) };
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

/** A footer's entry for a message: where it begins, and the length of its buffers. */
interface Block {
  start: number;
  bodyBytes: number;
}

function blockOf(block: Buffer): Block {
  return { start: wholeNumber(block, 0), bodyBytes: wholeNumber(block, 16) };
}

interface Blocks {
  dictionaries: readonly Block[];
  batches: readonly Block[];
  dataEnd: number;
}

/** In a file, a dictionary may come after the batches that use it. */
async function* fileMessages(
  reader: RandomReader,
  file: string,
  { dictionaries, batches, dataEnd }: Blocks,
  range?: { start: number; end: number },
): AsyncGenerator<Message> {
  const places: { start: number; end: number }[] = [];
  const read = async ({ start, bodyBytes }: Block, kind: Message["kind"]) => {
    const message = await readMessage(reader, file, start, dataEnd);
    if (message?.kind !== kind || message.end - message.bodyStart !== bodyBytes) {
      throw unreadable(file, `its footer is damaged: no such ${kind} lies at byte ${start}`);
    }
    places.push({ start, end: message.end });
    return message;
  };
  for (const block of dictionaries) yield await read(block, "dictionary");
  let before = 0;
  for (const block of batches) {
    const { start } = block;
    if (range && (start < range.start || start >= range.end)) continue;
    if (start < before) throw unreadable(file, `the batch at byte ${start} overlaps another`);
    const message = await read(block, "batch");
    before = message.end;
    yield message;
  }
  if (!range) await checkGaps(reader, file, places, dataEnd);
}

/**
 * Checks the bytes between the messages in the footer: if its lists were damaged, rows would be
 * missing in silence.
 */
async function checkGaps(
  reader: RandomReader,
  file: string,
  places: readonly { start: number; end: number }[],
  dataEnd: number,
): Promise<void> {
  const end = { start: dataEnd, end: dataEnd };
  let at = startBytes;
  for (const place of [...places.toSorted((a, b) => a.start - b.start), end]) {
    while (at < place.start) {
      // Padding and other bytes are not a message.
      const message = await readMessage(reader, file, at, place.start).catch(() => undefined);
      if (!message) break;
      if (message.kind === "dictionary" || (message.rows ?? 0) > 0) {
        throw unreadable(file, `its footer is damaged: it leaves out the ${message.kind} at ${at}`);
      }
      at = message.end;
    }
    at = Math.max(at, place.end);
  }
}

/** If a schema lacks columns or has too many, one column would be read as another. */
async function* checkedNodes(
  messages: AsyncIterable<Message>,
  { fields }: ArrowSchema,
  file: string,
): AsyncGenerator<Message> {
  const expected = nodesOf(fields);
  for await (const message of messages) {
    const { start, nodes = expected } = message;
    if (nodes !== expected) {
      const detail = `the batch at byte ${start} has ${nodes} parts of columns, not ${expected}`;
      throw unreadable(file, `${detail} as its schema`);
    }
    yield message;
  }
}

function nodesOf(fields: readonly ArrowField[]): number {
  const counts = fields.map(({ type }) => 1 + nodesOf(type.children ?? []));
  return counts.reduce((sum, count) => sum + count, 0);
}

async function openStream(reader: RandomReader, file: string): Promise<ArrowFile> {
  const first = await readMessage(reader, file, 0).catch((cause) => {
    throw unreadable(file, "it does not begin as Arrow does", { cause });
  });
  if (first?.kind !== "schema") throw unreadable(file, "it does not begin with a schema");
  const schema = streamSchema(first, file);
  assertReadable(schema, file);
  const hasDictionaries = schema.fields.some(hasDictionary);
  const messages: ArrowFile["messages"] = async function* (range) {
    const { start, end } = range ?? { start: first.end, end: reader.bytes };
    // A dictionary counts only for the batches after it, and may be replaced.
    let at = hasDictionaries ? first.end : start;
    while (at < end) {
      const message = await readMessage(reader, file, at);
      if (message === undefined) return await assertEnd(reader, file, at);
      at = message.end;
      if (message.kind !== "batch" && message.kind !== "dictionary") {
        throw unreadable(file, `damaged: the message at byte ${message.start} is not a batch`);
      }
      if (message.kind === "batch" && message.start < start) continue;
      if (message.kind === "batch" || hasDictionaries) yield message;
    }
  };
  const head = first.metadata;
  return { schema, head, messages: (range) => checkedNodes(messages(range), schema, file) };
}

/** The end mark has 8 bytes, or 4 in old files. */
async function assertEnd(reader: RandomReader, file: string, at: number): Promise<void> {
  const mark = Buffer.from(await reader.read(at, 4));
  const end = at + (mark.readUInt32LE(0) === 0 ? 4 : 8);
  if (end >= reader.bytes) return;
  throw unreadable(file, `bytes follow the end of its stream at byte ${end}: it is damaged`);
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
