import { isUtf8 } from "node:buffer";
import { SluiceError } from "../../../foundation/errors.ts";
import { sha256Hex } from "../../../foundation/hashing.ts";
import { limits } from "../../../foundation/limits.ts";
import type { SliceHeader } from "../../row.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { assertNoUtf16, chunksOf, markBytes } from "../chunks.ts";
import type { Dialect } from "./dialect.ts";
import { parseFields } from "./parse-fields.ts";
import { RecordScanner, withWholeLineEnds } from "./record-scanner.ts";

/** Bytes per read: a header is short. */
const headerChunkBytes = 16 * 1024;

/** The first record of a file, which names the fields. */
export interface Header extends SliceHeader {
  names: readonly string[];
  /** The line on which the header ends. */
  lastLine: number;
}

/**
 * Reads the header of a file; undefined if the file has no records.
 *
 * @param planned the header in the slice, to compare with; default: no comparison.
 * @throws SluiceError `INPUT_UNREADABLE` if it names no fields; `INPUT_CHANGED`.
 */
export async function readHeader(
  reader: RandomReader,
  file: string,
  dialect: Dialect,
  planned?: SliceHeader,
): Promise<Header | undefined> {
  const found = await findHeader(reader, file, dialect, planned?.bytes ?? reader.bytes);
  const sha256 = found && sha256Hex(found.bytes);
  if (planned && planned.sha256 !== sha256) {
    throw new SluiceError("INPUT_CHANGED", "its header is another one", { file });
  }
  if (!found || sha256 === undefined) return undefined;
  const names = await namesOf(found.record, found.line, file, dialect);
  const lastLine = found.line + found.record.toString("latin1").split("\n").length - 1;
  return { names, bytes: found.bytes.length, sha256, lastLine };
}

interface FoundHeader {
  /** The header record, and all bytes up to its end. */
  record: Buffer;
  bytes: Buffer;
  line: number;
}

async function findHeader(
  reader: RandomReader,
  file: string,
  { delimiter }: Dialect,
  end: number,
): Promise<FoundHeader | undefined> {
  let bytes: Buffer = Buffer.alloc(0);
  let mark = 0;
  const found = { start: -1, end: -1, line: 1 };
  const at = { start: 0, firstLine: 1, delimiter: delimiter.charCodeAt(0) };
  const scanner = new RecordScanner(file, at, {
    start(offset, line) {
      if (found.start < 0) [found.start, found.line] = [offset, line];
    },
    end(offset) {
      if (found.end < 0) found.end = offset;
    },
  });
  const chunks = chunksOf(reader, file, { start: 0, end }, headerChunkBytes);
  for await (const chunk of withWholeLineEnds(chunks)) {
    const isFirst = bytes.length === 0;
    if (isFirst) assertNoUtf16(chunk, file);
    if (isFirst) mark = markBytes(chunk);
    scanner.push(isFirst ? chunk.subarray(mark) : chunk);
    bytes = Buffer.concat([bytes, chunk]);
    if (found.end >= 0) break;
    if (bytes.length > limits.maxHeaderBytes) {
      assertLineEnds(bytes, file);
      throw unreadable(`its header exceeds ${limits.maxHeaderBytes} bytes`, file, found.line);
    }
  }
  if (found.end < 0) scanner.end();
  if (found.end < 0) return undefined;
  const [start, last] = [found.start + mark, found.end + mark];
  return { record: bytes.subarray(start, last), bytes: bytes.subarray(0, last), line: found.line };
}

async function namesOf(
  record: Buffer,
  line: number,
  file: string,
  { name, delimiter }: Dialect,
): Promise<string[]> {
  if (!isUtf8(record) || record.includes(0)) {
    throw unreadable(
      "its header is not UTF-8 text: name its encoding in input.encoding",
      file,
      line,
    );
  }
  const text = record.toString();
  const names = await parseFields(text, delimiter);
  if (!names) throw unreadable("a quote of the header is misplaced", file, line);
  assertLineEnds(record, file);
  const only = names.length === 1 && !text.startsWith('"') ? names[0]! : "";
  const other = [",", ";", "\t", "|"].find((each) => each !== delimiter && only.includes(each));
  if (other !== undefined) {
    const remedy = `set input.delimiter to ${other === "\t" ? "tab" : JSON.stringify(other)}`;
    const fault = `its header has no ${spoken(delimiter)}, as ${name} has, but a ${spoken(other)}`;
    throw unreadable(`${fault}: ${remedy}`, file, line);
  }
  assertDifferent(names, file, line);
  return names;
}

/** Lines of old Macintosh files end in a carriage return: the whole file would be the header. */
function assertLineEnds(bytes: Buffer, file: string): void {
  if (!bytes.includes("\r") || bytes.includes("\n") || bytes.includes('"')) return;
  const fault = "its lines end with a carriage return alone: convert them to end with a newline";
  throw unreadable(fault, file, 1);
}

function assertDifferent(names: readonly string[], file: string, line: number): void {
  const seen = new Map<string, number>();
  for (const [at, name] of names.entries()) {
    const before = seen.get(name);
    if (before !== undefined) {
      const what = name === "" ? "have no name" : `are named ${JSON.stringify(name)}`;
      throw unreadable(`columns ${before + 1} and ${at + 1} ${what}`, file, line);
    }
    seen.set(name, at);
  }
}

function spoken(delimiter: string): string {
  return { ",": "comma", ";": "semicolon", "\t": "tab", "|": "bar" }[delimiter] ?? delimiter;
}

function unreadable(detail: string, file: string, line: number): SluiceError {
  return new SluiceError("INPUT_UNREADABLE", detail, { file, line, hint: "correct the header" });
}
