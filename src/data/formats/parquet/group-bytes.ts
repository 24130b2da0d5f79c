import type { ColumnMetaData } from "hyparquet";
import { sha256Stream } from "../../../foundation/hashing.ts";
import { limits } from "../../../foundation/limits.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { chunksOf } from "../chunks.ts";
import { chunkPlace, type GroupPlace } from "./footer.ts";

/** The pages of one column of a row group. */
export interface ChunkBytes {
  meta: ColumnMetaData;
  bytes: Buffer;
}

/** Reads row groups one after another, each into the memory of the one before. */
export class GroupLoader {
  readonly #reader: RandomReader;
  readonly #file: string;
  #memory: Buffer = Buffer.alloc(0);

  constructor(reader: RandomReader, file: string) {
    this.#reader = reader;
    this.#file = file;
  }

  /**
   * Reads a row group from start to end, keeps the bytes of the wanted columns until the next call,
   * and takes the checksum of all.
   *
   * @throws SluiceError `INPUT_CHANGED` when the file has become shorter.
   */
  async load(
    group: GroupPlace,
    isWanted: (column: ColumnMetaData) => boolean,
  ): Promise<{ chunks: ChunkBytes[]; digest: Uint8Array }> {
    const chunks = this.#placesFor(group.columns.filter(isWanted));
    const hash = sha256Stream();
    let offset = group.start;
    const pieces = chunksOf(this.#reader, this.#file, group, limits.readChunkBytes);
    for await (const piece of pieces) {
      hash.update(piece);
      for (const { meta, bytes } of chunks) {
        copyOverlap(piece, offset, bytes, chunkPlace(meta).start);
      }
      offset += piece.length;
    }
    return { chunks, digest: hash.digest() };
  }

  #placesFor(columns: readonly ColumnMetaData[]): ChunkBytes[] {
    const sizes = columns.map((meta) => chunkPlace(meta).end - chunkPlace(meta).start);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    // Buffers of their own would wait for the garbage collector, group by group.
    if (this.#memory.length < total) this.#memory = Buffer.allocUnsafeSlow(total);
    let at = 0;
    return columns.map((meta, number) => {
      const start = at;
      at += sizes[number]!;
      return { meta, bytes: this.#memory.subarray(start, at) };
    });
  }
}

/** Copies what two stretches of the file have in common; each is told by where it begins. */
function copyOverlap(from: Buffer, fromStart: number, to: Buffer, toStart: number): void {
  const start = Math.max(fromStart, toStart);
  const end = Math.min(fromStart + from.length, toStart + to.length);
  if (start < end) from.copy(to, start - toStart, start - fromStart, end - fromStart);
}
