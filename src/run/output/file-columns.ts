import { type Column, mergeColumns } from "../../data/columns.ts";
import { contentOf } from "../../data/decompressing.ts";
import { formatFor } from "../../data/formats/registry.ts";
import type { RowFormat } from "../../data/formats/row-format.ts";
import type { InputFile } from "../../data/inputs.ts";
import { type OpenFile, openInOrder } from "../../data/open-files.ts";
import type { RandomReader } from "../../data/storage/storage.ts";

/**
 * What files say of their columns, joined in the order of the files; undefined where one of them
 * says nothing, or where there are none.
 *
 * @param keptOf columns that are kept of the files of one source; undefined = all.
 */
export async function columnsOfFiles(
  files: readonly InputFile[],
  keptOf: (source: number) => readonly string[] | undefined,
  openFile: OpenFile,
): Promise<Column[] | undefined> {
  const formats = files.map(({ path, format, form }) => formatFor(path, format, form));
  if (formats.some((format) => format.columns === undefined)) return undefined;
  let columns: Column[] | undefined;
  let at = 0;
  for await (const reader of openInOrder(files, openFile, "INPUT_UNREADABLE")) {
    const file = files[at]!;
    const kept = keptOf(file.source);
    const all = await columnsOf(reader, file, formats[at++]!);
    const own = kept ? kept.flatMap((name) => all.find((it) => it.name === name) ?? []) : [...all];
    columns = columns ? mergeColumns(columns, own) : own;
  }
  return columns;
}

async function columnsOf(
  reader: RandomReader,
  { path, form }: InputFile,
  format: RowFormat,
): Promise<readonly Column[]> {
  const content = contentOf(reader, path, format, "INPUT_UNREADABLE", form);
  try {
    return await format.columns!(content, path);
  } finally {
    if (content !== reader) await content.close();
  }
}
