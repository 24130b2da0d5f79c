import type { ColumnMetaData } from "hyparquet";
import { SluiceError } from "../../../foundation/errors.ts";
import { sha256Stream } from "../../../foundation/hashing.ts";
import { limits } from "../../../foundation/limits.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { chunksOf } from "../chunks.ts";
import { chunkPlace } from "./footer.ts";

/** How many buffers are kept for the next file, and the largest that is kept. */
const maxSpareGroups = 1;
const maxSpareGroupBytes = 32 * 1024 * 1024;

/** The pages of one column of a row group. */
export interface ChunkBytes {
  meta: ColumnMetaData;
  bytes: Buffer;
}

/** A byte range of a file. */
interface Place {
  start: number;
  end: number;
}

/** A gap between columns up to this size is read too: another request would take longer. */
const maxGapBytes = limits.readChunkBytes / 2;
/** Bytes per read into existing memory, so that other work gets its turn. */
const fillBytes = 4 * limits.readChunkBytes;

/**
 * Buffers of closed loaders, for the next loader. The garbage collector would free them late,
 * because it does not see memory outside of its heap.
 */
const spareMemory: Buffer[] = [];

/** Reads row groups one after another into the same memory. */
export class GroupLoader {
  readonly #reader: RandomReader;
  readonly #file: string;
  #memory: Buffer = spareMemory.pop() ?? Buffer.alloc(0);

  constructor(reader: RandomReader, file: string) {
    this.#reader = reader;
    this.#file = file;
  }

  /**
   * Reads columns of a row group and computes their checksums. The bytes stay valid until the next
   * call.
   *
   * @throws SluiceError `INPUT_CHANGED` if the file has become shorter.
   */
  async load(
    columns: readonly ColumnMetaData[],
  ): Promise<{ chunks: ChunkBytes[]; digests: Uint8Array[] }> {
    const chunks = this.#placesFor(columns);
    const reading = {
      readBytes: limits.readChunkBytes,
      onPart: (number: number, part: Buffer, at: number) => {
        part.copy(chunks[number]!.bytes, at);
      },
    };
    const digests = this.#reader.readInto
      ? await Promise.all(chunks.map((chunk) => this.#fill(chunk)))
      : await readColumns(this.#reader, this.#file, columns, reading);
    return { chunks, digests };
  }

  /** Releases the memory; its bytes are no longer valid. The last call. */
  close(): void {
    const isSmall = this.#memory.length <= maxSpareGroupBytes;
    if (isSmall && spareMemory.length < maxSpareGroups) spareMemory.push(this.#memory);
    this.#memory = Buffer.alloc(0);
  }

  /** Reads a column directly into the memory. */
  async #fill({ meta, bytes }: ChunkBytes): Promise<Uint8Array> {
    const hash = sha256Stream();
    const { start } = chunkPlace(meta);
    for (let at = 0; at < bytes.length; at += fillBytes) {
      const part = bytes.subarray(at, at + fillBytes);
      const filled = await this.#reader.readInto!(part, start + at);
      if (filled < part.length) {
        throw new SluiceError("INPUT_CHANGED", "it has become shorter", { file: this.#file });
      }
      hash.update(part);
    }
    return hash.digest();
  }

  #placesFor(columns: readonly ColumnMetaData[]): ChunkBytes[] {
    const sizes = columns.map((meta) => chunkPlace(meta).end - chunkPlace(meta).start);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    if (this.#memory.length < total) this.#memory = Buffer.allocUnsafeSlow(total);
    let at = 0;
    return columns.map((meta, number) => {
      const start = at;
      at += sizes[number]!;
      return { meta, bytes: this.#memory.subarray(start, at) };
    });
  }
}

/** Options of `readColumns`. */
export interface ColumnReading {
  readBytes: number;
  /** Gets a part of column `number`, `at` bytes after the column's start. */
  onPart?(number: number, part: Buffer, at: number): void;
}

/**
 * Reads columns of a row group, in the order in which they lie in the file.
 *
 * @returns the SHA-256 of each column.
 * @throws SluiceError `INPUT_CHANGED` if the file has become shorter.
 */
export async function readColumns(
  reader: RandomReader,
  file: string,
  columns: readonly ColumnMetaData[],
  { readBytes, onPart }: ColumnReading,
): Promise<Buffer[]> {
  const places = columns.map(chunkPlace);
  const hashes = columns.map(() => sha256Stream());
  for (const stretch of stretchesOf(places)) {
    let offset = stretch.start;
    for await (const piece of chunksOf(reader, file, stretch, readBytes)) {
      const end = offset + piece.length;
      for (const [number, place] of places.entries()) {
        const from = Math.max(place.start, offset);
        const to = Math.min(place.end, end);
        if (from >= to) continue;
        const part = piece.subarray(from - offset, to - offset);
        hashes[number]!.update(part);
        onPart?.(number, part, from - place.start);
      }
      offset = end;
    }
  }
  return hashes.map((hash) => hash.digest());
}

/** Joins byte ranges with little or nothing in between. */
function stretchesOf(places: readonly Place[]): Place[] {
  const stretches: Place[] = [];
  for (const place of places.toSorted((a, b) => a.start - b.start)) {
    const last = stretches.at(-1);
    if (!last || place.start > last.end + maxGapBytes) stretches.push({ ...place });
    else last.end = Math.max(last.end, place.end);
  }
  return stretches;
}
