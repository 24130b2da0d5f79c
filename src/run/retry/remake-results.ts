import type { Column } from "../../data/columns.ts";
import type { Commit } from "../attempt/commit.ts";
import { retryPaths } from "../directory/layout.ts";
import { readLineBatches } from "../directory/lines.ts";
import { type Encoding, encodeFile } from "../output/encoded-file.ts";
import { allColumns, isSameTable } from "../output/own-columns.ts";
import { mergeFile } from "../output/publish-results.ts";
import { publishedForm } from "../output/published-form.ts";
import type { FileRecord, Plan } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import type { Manifest } from "../seal/manifest.ts";

/** Results made again from lines after a retry; not published yet. */
export interface RemadeResults {
  /** By task: those whose rows changed; all tasks, if there are new columns. */
  parts: Record<string, FileRecord>;
  merged: FileRecord | null;
  columns?: readonly Column[];
}

/** What a retry merged, as far as results are made from it. */
interface MergedLines {
  tasks: Record<string, { part: FileRecord | null }>;
}

/** Makes results from the lines after a retry, in the retry's own folder. */
export async function remakeResults(
  context: RunContext,
  first: Plan,
  base: Manifest,
  lines: MergedLines,
  retried: ReadonlyMap<number, { commit: Commit }>,
): Promise<RemadeResults> {
  const { storage, plan, worker } = context;
  const { format, ending, needsColumns } = publishedForm(first);
  const paths = retryPaths(plan.generation, worker);
  const files = [...retried.values()].map(({ commit }) => commit.columns);
  const before = base.columns ?? [];
  const columns = needsColumns ? (await allColumns(storage, files, before)).columns : before;
  const encoding: Encoding = { format, columns };
  const made: RemadeResults = { parts: {}, merged: null, ...(needsColumns && { columns }) };
  const tasks = Array.from({ length: first.tasks.count }, (_, task) => ({
    task,
    source: lines.tasks[task]?.part ?? base.tasks[task]!.source!,
  }));
  if (first.outputs) return made;
  if (first.mergedFile !== null) {
    const path = paths.encodedMerged(ending);
    const source = { tasks, encoding, assertLeads: async () => {} };
    return { ...made, merged: await mergeFile(storage, storage, path, source) };
  }
  const isSame = isSameTable(format, before, columns);
  for (const { task, source } of tasks) {
    if (isSame && !lines.tasks[task]) continue;
    const path = paths.encoded(task, ending);
    made.parts[task] = await encodeFile(
      storage,
      path,
      readLineBatches(storage, source.path),
      encoding,
    );
  }
  return made;
}
