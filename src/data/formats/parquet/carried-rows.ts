import type { ColumnChunk, ColumnMetaData } from "hyparquet";
import type { ParquetWriter } from "hyparquet-writer";
import { limits } from "../../../foundation/limits.ts";
import { ColumnMisfit } from "../../column-fit.ts";
import type { Column } from "../../column-types.ts";
import { WrittenColumns } from "./written-columns.ts";

/**
 * A row group with columns copied from another file. The other columns are made from the lines of
 * the rows, in parts of bounded size, each a page or more.
 */
export class CarriedRows {
  readonly #writer: ParquetWriter;
  readonly #columns: readonly Column[];
  readonly #copied: ReadonlyMap<string, ColumnChunk[]>;
  readonly #rows: number;
  readonly #own: WrittenColumns;
  /** The text in a line before the value of the new column, if there is only one. */
  readonly #prefix: string | undefined;
  /** The written parts, each with the leaves of its columns. */
  readonly #parts: ColumnChunk[][] = [];
  #added = 0;
  #partRows = 0;
  #chars = 0;

  /**
   * @param columns all columns of the file.
   * @param copied columns that are written already; at least one column is not among them.
   */
  constructor(
    writer: ParquetWriter,
    columns: readonly Column[],
    copied: ReadonlyMap<string, ColumnChunk[]>,
    rows: number,
  ) {
    this.#writer = writer;
    this.#columns = columns;
    this.#copied = copied;
    this.#rows = rows;
    const own = columns.filter(({ name }) => !copied.has(name));
    this.#own = new WrittenColumns(own);
    this.#prefix = own.length === 1 ? `,${JSON.stringify(own[0]!.name)}:` : undefined;
  }

  /** True when all rows were added and the row group is written. */
  get isWhole(): boolean {
    return this.#added === this.#rows;
  }

  /** @throws ColumnMisfit if a value does not fit, or if there are too many to hold. */
  add(line: string): void {
    const text = this.#prefix === undefined ? "" : lastMember(line, this.#prefix);
    const isAdded = text !== "" && this.#own.addValue(text);
    if (!isAdded) this.#own.add(line, false);
    this.#chars += isAdded ? text.length : line.length;
    this.#partRows++;
    this.#added++;
    if (this.isWhole) this.#finish();
    else if (this.#chars >= limits.maxRowGroupChars) this.#writePart("PLAIN");
  }

  #writePart(encoding?: "PLAIN"): void {
    const columnData = this.#own.take().map((column) => ({
      ...column,
      ...(encoding && { encoding, offsetIndex: false }),
    }));
    this.#writer.write({ columnData, rowGroupSize: this.#partRows });
    // The library counted the rows, and took these columns for a whole row group.
    this.#parts.push(this.#writer.row_groups.pop()!.columns);
    if (encoding && this.#parts[0]!.length > 1) {
      throw new ColumnMisfit("values of several columns would lie between one another");
    }
    this.#partRows = 0;
    this.#chars = 0;
  }

  #finish(): void {
    this.#writePart(this.#parts.length > 0 ? "PLAIN" : undefined);
    const own =
      this.#parts.length > 1 ? [joined(this.#parts.map(([leaf]) => leaf!))] : this.#parts[0]!;
    const columns = this.#columns.flatMap(
      ({ name }) =>
        this.#copied.get(name) ?? own.filter((leaf) => leaf.meta_data!.path_in_schema[0] === name),
    );
    this.#writer.row_groups.push({
      columns,
      total_byte_size: sumOf(columns, "total_uncompressed_size"),
      num_rows: BigInt(this.#rows),
      total_compressed_size: sumOf(columns, "total_compressed_size"),
    });
  }
}

/**
 * The text in a line after `prefix`, up to the end of the line's object; empty if `prefix` occurs
 * more than once. If the text is JSON, it is the value of the last member: in a string the quotes
 * of `prefix` would be escaped, and any other member is followed by more than one brace.
 */
function lastMember(line: string, prefix: string): string {
  const at = line.lastIndexOf(prefix);
  if (at < 0 || line.indexOf(prefix) !== at || !line.endsWith("}")) return "";
  return line.slice(at + prefix.length, -1);
}

/** Joins consecutive pages into one column. */
function joined(leaves: readonly ColumnChunk[]): ColumnChunk {
  const metas = leaves.map(({ meta_data }) => meta_data!);
  const nulls = metas.map(({ statistics }) => statistics?.null_count);
  const isCounted = nulls.every((count) => count !== undefined);
  const { statistics: _, encoding_stats: __, ...first } = metas[0]!;
  return {
    ...leaves[0]!,
    meta_data: {
      ...first,
      encodings: [...new Set(metas.flatMap(({ encodings }) => encodings))],
      num_values: metas.reduce((sum, meta) => sum + meta.num_values, 0n),
      total_uncompressed_size: sumOf(leaves, "total_uncompressed_size"),
      total_compressed_size: sumOf(leaves, "total_compressed_size"),
      ...(isCounted && { statistics: { null_count: nulls.reduce((a, b) => a + b, 0n) } }),
    },
  };
}

type Size = keyof Pick<ColumnMetaData, "total_uncompressed_size" | "total_compressed_size">;

function sumOf(leaves: readonly ColumnChunk[], size: Size): bigint {
  return leaves.reduce((sum, { meta_data }) => sum + meta_data![size], 0n);
}
