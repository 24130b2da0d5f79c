import type { Transform } from "node:stream";
import { finished, pipeline } from "node:stream/promises";
import { constants, createBrotliCompress, createGzip, createZstdCompress } from "node:zlib";
import type { RowEncoder } from "./encoder.ts";

/** A compression of whole files. */
export type Compression = "gzip" | "zstd" | "brotli";

// Brotli's default, 11, takes a hundred times as long as the others and saves a tenth more.
const brotliParameters = { [constants.BROTLI_PARAM_QUALITY]: 5 };

const streams: Record<Compression, () => Transform> = {
  gzip: () => createGzip(),
  zstd: () => createZstdCompress(),
  brotli: () => createBrotliCompress({ params: brotliParameters }),
};

/** The bytes of a file, compressed as a whole. */
export async function* compressedChunks(
  chunks: AsyncIterable<Uint8Array>,
  compression: Compression,
): AsyncGenerator<Uint8Array> {
  const stream = streams[compression]();
  // An error ends the stream, which throws it to its reader.
  pipeline(chunks, stream).catch(() => {});
  yield* stream;
}

/** Compresses an encoder's file as a whole. Equal rows give equal bytes. */
export function compressing(encoder: RowEncoder, compression: Compression): RowEncoder {
  const stream = streams[compression]();
  let ready: Uint8Array[] = [];
  stream.on("data", (chunk: Uint8Array) => ready.push(chunk));
  const take = () => {
    const taken = ready;
    ready = [];
    return taken;
  };
  // The callback of a write has the error as well.
  stream.on("error", () => {});
  const write = async (pieces: readonly Uint8Array[]) => {
    for (const piece of pieces) {
      await new Promise<void>((resolve, reject) => {
        stream.write(piece, (error) => (error ? reject(error) : resolve()));
      });
    }
  };
  return {
    add: async (lines) => {
      await write(await encoder.add(lines));
      return take();
    },
    end: async () => {
      await write(await encoder.end());
      stream.end();
      await finished(stream);
      return take();
    },
  };
}
