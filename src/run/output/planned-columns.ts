import { type Column, mergeColumns } from "../../data/columns.ts";
import { contentOf } from "../../data/decompressing.ts";
import { formatFor } from "../../data/formats/registry.ts";
import { needsColumns } from "../../data/formats/result-format.ts";
import type { RowFormat } from "../../data/formats/row-format.ts";
import type { InputFile } from "../../data/inputs.ts";
import { type OpenFile, openInOrder } from "../../data/open-files.ts";
import type { RandomReader } from "../../data/storage/storage.ts";
import { describeEngine } from "../../engines/registry.ts";
import { limits } from "../../foundation/limits.ts";
import type { JobSpec } from "../job/schema.ts";
import { resultFormat } from "./output-form.ts";
import { assertTable } from "./own-columns.ts";

/** Most characters of columns in a plan, as JSON; if there are more, the rows define them. */
const maxColumnsChars = limits.maxPlanBytes / 4;

/** The column of answers, before there are any. */
export function answerColumn({ output }: JobSpec): Column {
  return { name: output.field, type: { kind: "null" }, nullable: true };
}

/**
 * The columns of results that follow from the input, so that a table keeps their types and their
 * order; undefined if part of the input has no columns, and the rows define them.
 *
 * @throws SluiceError `UNSUPPORTED` for too many columns for a table.
 */
export async function plannedColumns(
  files: readonly InputFile[],
  job: JobSpec,
  openFile: OpenFile,
): Promise<Column[] | undefined> {
  if (!needsColumns(resultFormat(job.output))) return undefined;
  const isOwnTable = job.output.format === "openai-batch" || describeEngine(job.model).givesRows;
  if (isOwnTable || files.length === 0) return undefined;
  // Texts of CSV get the types of the schema, which the file does not know.
  if (job.input.some(({ schema }) => schema !== undefined)) return undefined;
  const preparedOf = (source: number) => job.input[source]?.columns;
  const columns = await columnsOfFiles(files, preparedOf, openFile);
  if (columns === undefined) return undefined;
  const answer = answerColumn(job);
  const found = assertTable([...columns.filter(({ name }) => name !== answer.name), answer]);
  return JSON.stringify(found).length > maxColumnsChars ? undefined : found;
}

/**
 * The columns of files, joined in the order of the files; undefined if a file has none, or without
 * files.
 *
 * @param preparedOf columns to keep of one source's files; undefined = all.
 */
export async function columnsOfFiles(
  files: readonly InputFile[],
  preparedOf: (source: number) => readonly string[] | undefined,
  openFile: OpenFile,
): Promise<Column[] | undefined> {
  const formats = files.map(({ path, format, form }) => formatFor(path, format, form));
  if (formats.some((format) => format.columns === undefined)) return undefined;
  let columns: Column[] | undefined;
  let at = 0;
  for await (const reader of openInOrder(files, openFile, "INPUT_UNREADABLE")) {
    const file = files[at]!;
    const kept = preparedOf(file.source);
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
