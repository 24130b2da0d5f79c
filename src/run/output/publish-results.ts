import type { Column } from "../../data/columns.ts";
import type { Storage } from "../../data/storage/storage.ts";
import type { Commit } from "../attempt/commit.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { attemptPaths, partPath, partWidth } from "../directory/layout.ts";
import { fileChunks, readLineBatches, recordedLineBatches } from "../directory/lines.ts";
import type { RunContext } from "../run-context.ts";
import type { Manifest, ManifestTask } from "../seal/manifest.ts";
import { EncodedFile, type Encoding, encodeFile } from "./encoded-file.ts";
import { HashedFile, writeWhole } from "./hashed-file.ts";
import { type AllColumns, allColumns, isSameTable } from "./own-columns.ts";
import { answerColumn } from "./planned-columns.ts";
import { publishedForm } from "./published-form.ts";
import { writeOutputs } from "./write-outputs.ts";

/** What the seal needs of a commit to publish its part in another format. */
export type EncodedTask = Pick<Commit, "task" | "attempt" | "published" | "columns">;

export type MadeResults = Pick<Manifest, "merged" | "columns" | "outputs">;

const partsAtOnce = 8;

/**
 * Makes the results of a run whose published form differs from the attempts' lines. A task's own
 * file is published if it has all columns, and made again if other tasks have more; a merged file
 * is made from all lines. The result is the same whoever makes it, and however often.
 *
 * @param tasks their parts are filled in.
 * @param encoded one for each of the tasks.
 * @param assertLeads called right before a file appears; throws to prevent it.
 */
export async function publishResults(
  context: RunContext,
  tasks: readonly ManifestTask[],
  encoded: readonly EncodedTask[],
  assertLeads: () => Promise<void>,
): Promise<MadeResults> {
  const { storage, outside, plan } = context;
  const { format, needsColumns } = publishedForm(plan);
  const files = encoded.map((task) => task.columns);
  // Without rows, the columns are those of the input.
  const known = files.length === 0 ? (plan.columns ?? [answerColumn(plan.job)]) : undefined;
  const all = needsColumns ? await allColumns(storage, files, known) : undefined;
  const encoding: Encoding = { format, columns: all?.columns ?? [] };
  const made = all ? { columns: all.columns } : {};
  if (plan.outputs) {
    const { columns } = encoding;
    const outputs = await writeOutputs(context, plan, { tasks, columns, assertLeads });
    return { merged: null, ...made, outputs };
  }
  if (plan.mergedFile !== null) {
    const source = { tasks, encoding, assertLeads };
    const merged = await mergeFile(storage, outside, plan.mergedFile, source);
    return { merged, ...made };
  }
  for (let start = 0; start < tasks.length; start += partsAtOnce) {
    const some = tasks.slice(start, start + partsAtOnce);
    const files = await Promise.all(
      some.map((entry, at) => wholePart(context, entry, encoded[start + at]!, encoding, all)),
    );
    await assertLeads();
    await Promise.all(some.map((entry, at) => publishPart(context, entry, files[at]!)));
  }
  return { merged: null, ...made };
}

/** A task's part with all columns: the attempt's own, or made again. */
async function wholePart(
  { storage, plan }: RunContext,
  { task, source }: ManifestTask,
  { attempt, published, columns }: EncodedTask,
  encoding: Encoding,
  all: AllColumns | undefined,
): Promise<FileRecord> {
  const { ending } = publishedForm(plan);
  const own: readonly Column[] = all && columns ? all.of(columns) : [];
  if (published && isSameTable(encoding.format, own, encoding.columns)) return published;
  const widened = attemptPaths(task, plan, attempt).widened(ending);
  return await encodeFile(storage, widened, readLineBatches(storage, source!.path), encoding);
}

async function publishPart(
  { storage, plan }: RunContext,
  entry: ManifestTask,
  file: FileRecord,
): Promise<void> {
  const { ending } = publishedForm(plan);
  const path = partPath(entry.task, partWidth(plan.tasks.count), ending);
  await storage.publish(file.path, path);
  entry.part = { ...file, path };
  entry.encoded = file.path;
}

export interface MergedSource {
  tasks: readonly Pick<ManifestTask, "source">[];
  encoding: Encoding;
  /** Called right before the file appears; throws to prevent it. */
  assertLeads(): Promise<void>;
}

/** Joins the lines of all tasks, in order, into one file. */
export async function mergeParts(
  storage: Storage,
  target: Storage,
  path: string,
  { tasks, assertLeads }: Omit<MergedSource, "encoding">,
): Promise<FileRecord> {
  return await writeWhole(await HashedFile.open(target, path), async (file) => {
    for (const { source } of tasks) {
      for await (const chunk of fileChunks(storage, source!.path)) await file.write(chunk);
    }
    // Another process may have led meanwhile, and a retry changed the file.
    await assertLeads();
  });
}

/** Writes the rows of all tasks, in order, into one file of another format. */
export async function mergeFile(
  storage: Storage,
  target: Storage,
  path: string,
  { tasks, encoding, assertLeads }: MergedSource,
): Promise<FileRecord> {
  return await writeWhole(await EncodedFile.open(target, path, encoding), async (file) => {
    for (const { source } of tasks) {
      for await (const lines of recordedLineBatches(storage, source!)) await file.addAll(lines);
    }
    await assertLeads();
  });
}
