import { ColumnMisfit } from "../../data/column-fit.ts";
import type { Column } from "../../data/columns.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import type { attemptPaths } from "../directory/layout.ts";
import { readLineBatches } from "../directory/lines.ts";
import { recordBytes } from "../directory/records.ts";
import { carryPart, type WrittenPart } from "../output/carried-part.ts";
import { encodeFile } from "../output/encoded-file.ts";
import { columnsOfLines } from "../output/own-columns.ts";
import { publishedForm } from "../output/published-form.ts";
import type { PlannedFile } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import type { Commit } from "./commit.ts";

/** Rows by which the columns of all are guessed. */
const guessedRows = 100;

type EncodedPart = Pick<Commit, "published" | "columns">;

/**
 * Parts of one worker are encoded one after another: each takes the memory of a row group. By the
 * storage that the worker has opened; simulated ones share a process, and must not wait for dead.
 */
const lastTurns = new WeakMap<Storage, Promise<unknown>>();

/**
 * Makes of an attempt's part what is to be published, where that is not the part: the same rows in
 * another format, and their columns. Which columns all tasks have together only the seal knows.
 */
export function encodePart(
  context: RunContext,
  paths: ReturnType<typeof attemptPaths>,
  written: WrittenPart,
): Promise<EncodedPart> {
  const last = lastTurns.get(context.storage) ?? Promise.resolve();
  const turn = last.then(() => encodeInTurn(context, paths, written));
  const ended = turn.catch(() => {});
  lastTurns.set(context.storage, ended);
  return turn;
}

async function encodeInTurn(
  context: RunContext,
  paths: ReturnType<typeof attemptPaths>,
  written: WrittenPart,
): Promise<EncodedPart> {
  const { storage, plan } = context;
  const { part } = written;
  const { format, ending, isLines, isParts, needsColumns } = publishedForm(plan);
  if (isLines) return {};
  const columnsOf = (maxLines?: number) =>
    columnsOfLines(storage, part.path, plan.columns ?? [], maxLines);
  const encode = (columns: readonly Column[]) => {
    const lines = readLineBatches(storage, part.path);
    return encodeFile(storage, paths.encoded(ending), lines, { format, columns });
  };
  // A retry's rows are merged into others before they are published.
  const isPublished = isParts && plan.generation === 1;
  if (isPublished && format.name === "parquet") {
    // Its encoder refuses what does not fit, so that rows mostly need to be read once only.
    const columns = await columnsOf(guessedRows);
    const path = paths.encoded(ending);
    const carried = await carryPart(context, written, path, { format, columns }).catch(
      ignoreMisfit,
    );
    const published = carried ?? (await encode(columns).catch(ignoreMisfit));
    if (published) return { published, columns: await storeColumns(columns) };
  }
  const columns = needsColumns ? await columnsOf() : [];
  const found = needsColumns ? { columns: await storeColumns(columns) } : {};
  return isPublished ? { published: await encode(columns), ...found } : found;

  async function storeColumns(columns: readonly Column[]): Promise<PlannedFile> {
    const bytes = recordBytes(columns);
    await storage.replace(paths.columns, bytes);
    return { path: paths.columns, sha256: sha256Hex(bytes), bytes: bytes.length };
  }
}

function ignoreMisfit(error: unknown): undefined {
  if (!(error instanceof ColumnMisfit)) throw error;
}
