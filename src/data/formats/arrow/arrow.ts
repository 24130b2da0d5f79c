import type { RowFormat } from "../row-format.ts";

/**
 * Arrow IPC, as files (`.arrow`, Feather V2) and as streams: a table in record batches, at which it
 * is cut. The reading code is loaded with the first file.
 */
export function arrowFormat(): RowFormat & { name: "arrow" } {
  return {
    name: "arrow",
    extensions: [".arrow", ".feather", ".ipc", ".arrows"],
    async *scan(reader, file, rule) {
      const { scanArrow } = await import("./scan.ts");
      yield* scanArrow(reader, file, rule);
    },
    async *read(reader, slice, firstIndex, options) {
      const { readArrow } = await import("./read.ts");
      yield* readArrow(reader, slice, firstIndex, options);
    },
    async columns(reader, file) {
      const [{ openArrow }, { tableOf }] = await Promise.all([
        import("./arrow-file.ts"),
        import("./table.ts"),
      ]);
      const { schema } = await openArrow(reader, file);
      return tableOf(schema, file).columns.map(({ column }) => column);
    },
    async rowCount(reader, file) {
      const { openArrow } = await import("./arrow-file.ts");
      const arrow = await openArrow(reader, file);
      let rows = 0;
      for await (const message of arrow.messages()) rows += message.rows ?? 0;
      return rows;
    },
  };
}
