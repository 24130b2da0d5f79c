import type { RowFormat } from "../row-format.ts";

/**
 * Apache Parquet: a table by columns, cut at its row groups. The reading code is loaded with the
 * first file.
 */
export function parquetFormat(): RowFormat & { name: "parquet" } {
  return {
    name: "parquet",
    extensions: [".parquet", ".pq"],
    async *scan(reader, file, rule) {
      const { scanParquet } = await import("./scan.ts");
      yield* scanParquet(reader, file, rule);
    },
    async *read(reader, slice, firstIndex, options) {
      const { readParquet } = await import("./read.ts");
      yield* readParquet(reader, slice, firstIndex, options);
    },
    async columns(reader, file) {
      const [{ readFooter }, { tableOf }] = await Promise.all([
        import("./footer.ts"),
        import("./table.ts"),
      ]);
      const { metadata } = await readFooter(reader, file);
      return tableOf(metadata, file).map(({ column }) => column);
    },
    async rowCount(reader, file) {
      const { readFooter } = await import("./footer.ts");
      const { groups } = await readFooter(reader, file);
      return groups.reduce((rows, group) => rows + group.rows, 0);
    },
  };
}
