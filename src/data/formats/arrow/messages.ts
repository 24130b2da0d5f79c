import { limits } from "../../../foundation/limits.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { unreadable } from "../unreadable.ts";
import { FlatTable, wholeNumber } from "./flat-table.ts";

/** A message of Arrow IPC, from its metadata. */
export interface Message {
  kind: "schema" | "dictionary" | "batch" | "other";
  /** Offsets in the file: of the metadata, of the buffers after it, and of the end. */
  start: number;
  bodyStart: number;
  end: number;
  version: number;
  metadata: Buffer;
  /** Offset in the metadata of the schema or record batch. */
  place: number;
  /** Rows of a record batch. */
  rows?: number;
  /** Number of column parts in a record batch; a nested column comes before its parts. */
  nodes?: number;
  /** A dictionary's id, and whether its entries are added to the earlier ones. */
  dictionary?: { id: number; isDelta: boolean; entries: number };
}

const kinds = { 1: "schema", 2: "dictionary", 3: "batch" } as const;

/** Comes before the metadata's length since Arrow 0.15. */
const continuation = 0xffffffff;
/** Bytes of the first read; it contains the metadata of most batches. */
const firstReadBytes = 4 * 1024;

/**
 * Reads the metadata of the message at `start`; undefined if the stream ends there.
 *
 * @param end of the bytes that may belong to it.
 * @throws SluiceError `INPUT_UNREADABLE`
 */
export async function readMessage(
  reader: RandomReader,
  file: string,
  start: number,
  end: number = reader.bytes,
): Promise<Message | undefined> {
  if (start >= end) return undefined;
  const fault = (detail: string, cause?: unknown) =>
    unreadable(file, `the message at byte ${start} ${detail}`, { cause });
  const truncated = () => fault("is cut off: the file is truncated");
  const first = Buffer.from(await reader.read(start, Math.min(firstReadBytes, end - start)));
  if (first.length < 4) throw truncated();
  const mark = first.readUInt32LE(0);
  if (mark === continuation && first.length < 8) throw truncated();
  const [prefixBytes, length] = mark === continuation ? [8, first.readUInt32LE(4)] : [4, mark];
  if (length === 0) return undefined;
  const bodyStart = start + prefixBytes + length;
  if (length > limits.maxArrowMetadataBytes) throw fault(`has metadata of ${length} bytes`);
  if (bodyStart > end) throw truncated();
  const whole =
    prefixBytes + length <= first.length
      ? first
      : Buffer.from(await reader.read(start, prefixBytes + length));
  // A copy: the metadata is kept, so the rest of the read can be freed.
  const metadata = Buffer.from(whole.subarray(prefixBytes, prefixBytes + length));
  let message: Message;
  try {
    message = messageOf(metadata, start, bodyStart);
  } catch (cause) {
    throw fault(`is damaged: ${(cause as Error).message}`, cause);
  }
  if (message.end > end) throw truncated();
  return message;
}

function messageOf(metadata: Buffer, start: number, bodyStart: number): Message {
  const table = new FlatTable(metadata, 0);
  const kind = kinds[table.uint8(6) as keyof typeof kinds] ?? "other";
  const bodyBytes = table.int64(10);
  const place = table.place(8) ?? 0;
  const own = { kind, start, bodyStart, end: bodyStart + bodyBytes, version: table.int16(4) };
  const message: Message = { ...own, metadata, place };
  const header = table.table(8);
  if (header === undefined) throw new Error("it does not say what it is");
  if (kind === "schema") checkSchema(header);
  if (kind === "batch") return { ...message, ...checkedRows(header, bodyBytes) };
  if (kind !== "dictionary") return message;
  const data = header.table(6);
  if (data === undefined) throw new Error("a dictionary has no entries");
  const { rows: entries } = checkedRows(data, bodyBytes);
  const dictionary = { id: header.int64(4), isDelta: header.uint8(8) !== 0, entries };
  return { ...message, place: header.place(6)!, dictionary };
}

/** The rows of a batch. Its buffers must lie within its body. */
function checkedRows(
  batch: FlatTable,
  bodyBytes: number,
): Required<Pick<Message, "rows" | "nodes">> {
  const rows = batch.int64(4);
  const nodes = batch.entries(6, 16);
  for (const node of nodes) {
    if (wholeNumber(node, 8) > wholeNumber(node, 0))
      throw new Error("it has more nulls than values");
  }
  if (nodes[0] && wholeNumber(nodes[0], 0) !== rows) throw new Error(`it cannot have ${rows} rows`);
  for (const buffer of batch.entries(8, 16)) {
    const [start, length] = [wholeNumber(buffer, 0), wholeNumber(buffer, 8)];
    if (start + length > bodyBytes) throw new Error("a buffer reaches beyond its body");
  }
  const views = batch.entries(12, 8).reduce((sum, count) => sum + wholeNumber(count, 0), 0);
  if (views > batch.entries(8, 16).length) throw new Error("it has fewer buffers than views");
  return { rows, nodes: nodes.length };
}

/** Throws if a part of a schema lies beyond its end. */
export function checkSchema(schema: FlatTable): void {
  checkMetadata(schema, 8);
  for (const field of schema.tables(6)) checkField(field);
}

function checkField(field: FlatTable): void {
  if (field.place(4) === undefined) throw new Error("a column has no name");
  field.checkText(4);
  checkMetadata(field, 16);
  field.table(12)?.table(6);
  const type = field.table(10);
  if (field.uint8(8) === timestampType) type?.checkText(6);
  if (field.uint8(8) === unionType) type?.entries(6, 4);
  for (const child of field.tables(14)) checkField(child);
}

const timestampType = 10;
const unionType = 14;

function checkMetadata(table: FlatTable, slot: number): void {
  for (const entry of table.tables(slot)) {
    entry.checkText(4);
    entry.checkText(6);
  }
}
