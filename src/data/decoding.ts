import { TextDecoder } from "node:util";
import type { ErrorCode } from "../foundation/error-table.ts";
import { SluiceError } from "../foundation/errors.ts";
import { forwardReader, piecesOf } from "./forward-reader.ts";
import type { RandomReader } from "./storage/storage.ts";

/** Whether the Encoding Standard has an encoding of this name. */
export function isEncoding(name: string): boolean {
  try {
    return new TextDecoder(name) !== undefined;
  } catch {
    return false;
  }
}

/**
 * Reads a file of another encoding as UTF-8 without a byte order mark. Closing the result leaves
 * `reader` open.
 *
 * @param encoding for `utf-16` the byte order mark decides; without one it is little-endian.
 * @param code of the error if bytes are invalid in the encoding.
 */
export function decoding(
  reader: RandomReader,
  file: string,
  encoding: string,
  code: ErrorCode,
): RandomReader {
  return forwardReader(() => decoded(reader, file, encoding, code));
}

async function* decoded(
  reader: RandomReader,
  file: string,
  encoding: string,
  code: ErrorCode,
): AsyncGenerator<Buffer, undefined> {
  let decoder: TextDecoder | undefined;
  let bytes = 0;
  const decode = (piece?: Uint8Array) => {
    try {
      decoder ??= new TextDecoder(byMark(encoding, piece), { fatal: true });
      return Buffer.from(decoder.decode(piece, { stream: piece !== undefined }));
    } catch (cause) {
      const detail = `bytes are not ${encoding}, at byte ${bytes} or soon behind it`;
      const hint = "name the encoding that the file has in input.encoding";
      throw new SluiceError(code, detail, { file, hint, cause });
    }
  };
  for await (const piece of piecesOf(reader, 0)) {
    const text = decode(piece);
    bytes += piece.length;
    if (text.length > 0) yield text;
  }
  const rest = decode();
  if (rest.length > 0) yield rest;
}

function byMark(encoding: string, start: Uint8Array = new Uint8Array()): string {
  const isBigEndian = start[0] === 0xfe && start[1] === 0xff;
  return encoding.toLowerCase() === "utf-16" && isBigEndian ? "utf-16be" : encoding;
}
