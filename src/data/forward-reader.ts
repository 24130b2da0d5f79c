import { limits } from "../foundation/limits.ts";
import type { RandomReader } from "./storage/storage.ts";

/**
 * Reads content that can only be produced from its start, such as that of a compressed file.
 * Reading forward is free; reading further back produces the content again. `bytes` is infinite,
 * because the length is unknown.
 *
 * @param contentFromStart produces the content in pieces.
 */
export function forwardReader(
  contentFromStart: () => AsyncGenerator<Buffer, undefined>,
): RandomReader {
  let content = contentFromStart();
  /** Offset in the content of the first byte that is held. */
  let position = 0;
  let held: Buffer = Buffer.alloc(0);
  const startAnew = async () => {
    await content.return(undefined);
    content = contentFromStart();
    [position, held] = [0, Buffer.alloc(0)];
  };
  const readAt = async (offset: number, length: number): Promise<Buffer> => {
    if (offset < position) await startAnew();
    const pieces: Buffer[] = [];
    let missing = length;
    while (missing > 0) {
      if (held.length === 0) {
        const { done, value } = await content.next();
        if (done) break;
        held = value;
      }
      const skipped = Math.min(Math.max(0, offset - position), held.length);
      const piece = held.subarray(skipped, skipped + missing);
      if (piece.length > 0) pieces.push(piece);
      missing -= piece.length;
      position += skipped + piece.length;
      held = held.subarray(skipped + piece.length);
    }
    return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
  };
  let last: Promise<unknown> = Promise.resolve();
  return {
    bytes: Number.POSITIVE_INFINITY,
    read(offset, length) {
      const reading = last.then(() => readAt(offset, length));
      last = reading.catch(() => {});
      return reading;
    },
    async close() {
      await last;
      await content.return(undefined);
    },
  };
}

/** The bytes of a file from `start` on, in pieces. */
export async function* piecesOf(reader: RandomReader, start: number): AsyncGenerator<Uint8Array> {
  for (let offset = start; ; ) {
    const piece = await reader.read(offset, limits.readChunkBytes);
    if (piece.length > 0) yield piece;
    if (piece.length < limits.readChunkBytes) return;
    offset += piece.length;
  }
}
