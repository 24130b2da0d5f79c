import type { ColumnChunk } from "hyparquet";
import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import { limits } from "../../../foundation/limits.ts";
import type { Column } from "../../column-types.ts";
import type { EncoderOptions, RowEncoder } from "../encoder.ts";
import type { CarriedGroup } from "./carried-groups.ts";
import { CarriedRows } from "./carried-rows.ts";
import { copyChunk } from "./copied-chunk.ts";
import { type PageCodec, type PageCompression, pageCodecs } from "./page-codecs.ts";
import { WrittenColumns } from "./written-columns.ts";
import { writtenSchema } from "./written-schema.ts";

const maxRowGroupRows = 50_000;

/**
 * A Parquet file with exactly these columns. Memory holds one row group. It is written when it has
 * `maxRowGroupRows` rows or `limits.maxRowGroupChars` characters of JSON. Equal rows give equal
 * bytes, in whatever portions they are added.
 *
 * @throws ColumnMisfit from `add`: if a row does not fit the columns.
 */
export function parquetEncoder(
  { columns }: EncoderOptions,
  compression: PageCompression = "snappy",
): RowEncoder {
  const bytes = new TakenBytes();
  const file = new RowGroups(columns, bytes, compression);
  return {
    add: async (lines) => {
      for (const line of lines) file.add(line);
      return bytes.take();
    },
    carry: (group) => file.carry(group),
    end: async () => {
      file.end();
      return bytes.take();
    },
  };
}

/** A page of at least this size is kept as it is; smaller ones are copied together. */
const ownPageBytes = 64 * 1024;

/** A writer whose bytes can be taken away at any time. */
class TakenBytes extends ByteWriter {
  #taken: Uint8Array[] = [];

  /** The library makes each page anew, and a copied page stays valid until it was taken. */
  override appendBytes(bytes: Uint8Array): void {
    if (bytes.length < ownPageBytes) return super.appendBytes(bytes);
    this.flush();
    this.#taken.push(bytes);
    this.offset += bytes.length;
  }

  /** The library calls it at the end of each row group. */
  flush(): void {
    if (this.index > 0) this.#taken.push(this.getBytes().slice());
    this.index = 0;
  }

  override finish(): void {
    this.flush();
  }

  take(): Uint8Array[] {
    const taken = this.#taken;
    this.#taken = [];
    return taken;
  }
}

class RowGroups {
  readonly #columns: readonly Column[];
  readonly #bytes: TakenBytes;
  readonly #codec: PageCodec;
  readonly #writer: ParquetWriter;
  readonly #values: WrittenColumns;
  #carried: CarriedRows | undefined;
  #rows = 0;
  #chars = 0;

  constructor(columns: readonly Column[], bytes: TakenBytes, compression: PageCompression) {
    this.#columns = columns;
    this.#bytes = bytes;
    this.#codec = pageCodecs[compression]();
    this.#values = new WrittenColumns(columns);
    this.#writer = new ParquetWriter({
      writer: bytes,
      schema: writtenSchema(columns),
      createdBy: "sluice",
      ...this.#codec,
    });
  }

  add(line: string): void {
    if (this.#carried) {
      this.#carried.add(line);
      if (this.#carried.isWhole) this.#carried = undefined;
      return;
    }
    this.#values.add(line, true);
    this.#rows++;
    this.#chars += line.length;
    const isFull = this.#rows >= maxRowGroupRows || this.#chars >= limits.maxRowGroupChars;
    if (isFull) this.#write();
  }

  /** Copies columns for the next rows, and yields bytes in between. */
  async *carry({ rows, columns }: CarriedGroup): AsyncGenerator<Uint8Array[]> {
    if (this.#rows > 0) this.#write();
    const copied = new Map<string, ColumnChunk[]>();
    for (const [name, chunks] of columns) {
      const leaves: ColumnChunk[] = [];
      for (const chunk of chunks) {
        const fileOffset = BigInt(this.#bytes.offset);
        const steps = copyChunk(this.#bytes, chunk, this.#codec);
        let step = await steps.next();
        for (; !step.done; step = await steps.next()) yield this.#bytes.take();
        leaves.push({ file_offset: fileOffset, meta_data: step.value });
      }
      copied.set(name, leaves);
    }
    this.#carried = new CarriedRows(this.#writer, this.#columns, copied, rows);
    yield this.#bytes.take();
  }

  end(): void {
    if (this.#carried) throw new Error("rows of a carried row group are missing");
    if (this.#rows > 0) this.#write();
    this.#writer.finish();
  }

  #write(): void {
    this.#writer.write({ columnData: this.#values.take(), rowGroupSize: this.#rows });
    this.#rows = 0;
    this.#chars = 0;
  }
}
