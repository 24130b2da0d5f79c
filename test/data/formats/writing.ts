import type { RowEncoder } from "../../../src/data/formats/encoder.ts";

/** The file that an encoder makes of rows which come a few at a time. */
export async function written(encoder: RowEncoder, lines: readonly string[]): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < lines.length; at += 3) {
    pieces.push(...(await encoder.add(lines.slice(at, at + 3))));
  }
  pieces.push(...(await encoder.end()));
  return Buffer.concat(pieces);
}
