import { contentOf } from "../../data/decompressing.ts";
import { formatFor } from "../../data/formats/registry.ts";
import { endingOf, needsColumns, resultFormatOf } from "../../data/formats/result-format.ts";
import type { InputFile } from "../../data/inputs.ts";
import type { OpenFile } from "../../data/open-files.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { begunOutputsPath, outputsPrefix } from "../directory/layout.ts";
import { readLines } from "../directory/lines.ts";
import type { RunLocation } from "../directory/locate.ts";
import type { JobSpec } from "../job/schema.ts";
import { idFieldOf } from "../openai-batch/batch-lines.ts";
import type { Plan, PlannedOutputs } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import { HashedFile, writeWhole } from "./hashed-file.ts";
import { type OutputFile, outputFiles } from "./output-files.ts";
import { resultFormat } from "./output-form.ts";
import { placeholdersOf } from "./output-path.ts";

export interface OutputPlanning extends OutputPlaces {
  job: JobSpec;
  location: RunLocation;
  openFile: OpenFile;
  uniqueId: string;
  /** Paths that the run planned before, and may have written. */
  standing?: ReadonlySet<string>;
}

/**
 * Plans the result files, by input or by row, and stores their list; undefined if results are in
 * parts or in one file.
 *
 * @throws SluiceError `JOB_INVALID` if two results would go to one file, `OUTPUT_OCCUPIED` if one
 *   of the files exists.
 */
export async function planOutputs(
  found: readonly InputFile[],
  planning: OutputPlanning,
): Promise<PlannedOutputs | undefined> {
  const { job, location, standing } = planning;
  const ending = endingOf(resultFormat(job.output));
  const planned = outputFiles(found, { job, location, ending });
  if (!planned) return undefined;
  const { base, isPerRow, files } = planned;
  if (isPerRow) assertNamedRows(job, files);
  const fresh = standing ? files.filter(({ path }) => !standing.has(path)) : files;
  await assertAbsent(fresh, outputStorage(base, planning), isPerRow, standing);
  for (const [at, file] of files.entries()) {
    if (await isOneRow(found[at]!, file, isPerRow, planning.openFile)) file.isObject = true;
  }
  return {
    base,
    isPerRow,
    files: files.length,
    needsColumns: files.some(({ path }) => needsColumns(resultFormatOf(path)!)),
    list: await storeList(files, planning),
  };
}

/** The places where result files may lie. */
export type OutputPlaces = Pick<RunContext, "storage" | "outside" | "openStorage">;

/** The base of the result files' paths. */
export function outputStorage(
  base: PlannedOutputs["base"],
  { storage, outside, openStorage }: OutputPlaces,
): Storage {
  if (base === "run") return storage;
  return base === "outside" ? outside : openStorage(base);
}

export async function* plannedOutputFiles(
  storage: Storage,
  { outputs }: Pick<Plan, "outputs">,
): AsyncGenerator<OutputFile> {
  if (!outputs) return;
  for await (const line of readLines(storage, outputs.list.path)) {
    yield JSON.parse(line) as OutputFile;
  }
}

/**
 * Checks the places of planned result files.
 *
 * @param list the path of the plan's list of them.
 * @throws SluiceError `OUTPUT_OCCUPIED` if one of them exists.
 */
export async function assertOutputsAbsent(
  list: Storage,
  plan: Pick<Plan, "outputs">,
  places: OutputPlaces,
): Promise<void> {
  if (!plan.outputs) return;
  const { base, isPerRow } = plan.outputs;
  const files = await Array.fromAsync(plannedOutputFiles(list, plan));
  await assertAbsent(files, outputStorage(base, places), isPerRow);
}

function assertNamedRows({ input, output }: JobSpec, files: readonly OutputFile[]): void {
  if (!files.some(({ path }) => placeholdersOf(path).includes("id"))) return;
  if (input.every((source) => idFieldOf(source) !== undefined)) return;
  throw new SluiceError("JOB_INVALID", `${output.path} has {id}, and no field is said to be it`, {
    field: "output.path",
    hint: "name the field that identifies a row, as input: {path: …, id: id}, or take {index}",
  });
}

async function assertAbsent(
  files: readonly OutputFile[],
  storage: Storage,
  isPerRow: boolean,
  standing?: ReadonlySet<string>,
): Promise<void> {
  const occupied = async (path: string) =>
    new SluiceError("OUTPUT_OCCUPIED", "the file exists", { file: `${storage.location}/${path}` });
  if (!isPerRow) {
    for (const { path } of files) if (await storage.stat(path)) throw await occupied(path);
    return;
  }
  for (const pattern of new Set(files.map(({ path }) => path))) {
    const name = pattern
      .split(/\{(?:index|id)\}/)
      .map(escaped)
      .join("[^/]+");
    const form = new RegExp(`^${name}$`);
    for await (const { path } of storage.list(pattern.slice(0, pattern.indexOf("{")))) {
      if (form.test(path) && !standing?.has(path)) throw await occupied(path);
    }
  }
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** True if a results file must be one JSON object, because its input is one. */
async function isOneRow(
  { path, format: name, form }: InputFile,
  output: OutputFile,
  isPerRow: boolean,
  openFile: OpenFile,
): Promise<boolean> {
  if (resultFormatOf(output.path)?.name !== "json") return false;
  const format = formatFor(path, name, form);
  if (isPerRow || format.name === "files" || format.name === "text-file") return true;
  if (format.name !== "json" || form?.records !== undefined) return false;
  const reader = await openFile(path);
  const content = contentOf(reader, path, format, "INPUT_UNREADABLE", form);
  try {
    const start = Buffer.from(await content.read(0, limits.readChunkBytes)).toString("latin1");
    return /^[^[]*?\{/.test(start);
  } finally {
    if (content !== reader) await content.close();
    await reader.close();
  }
}

async function storeList(
  files: readonly OutputFile[],
  { storage, uniqueId }: OutputPlanning,
): Promise<PlannedOutputs["list"]> {
  const draft = `${outputsPrefix}pending-${uniqueId}`;
  const list = await writeWhole(await HashedFile.open(storage, draft), async (file) => {
    for (let start = 0; start < files.length; start += linesAtOnce) {
      const lines = files.slice(start, start + linesAtOnce).map((it) => `${JSON.stringify(it)}\n`);
      await file.write(Buffer.from(lines.join("")));
    }
  });
  // Named by its content: two planners never overwrite each other's list.
  const path = `${outputsPrefix}${list.sha256.slice(0, 16)}.jsonl`;
  await storage.publish(draft, path);
  await storage.remove(draft);
  return { ...list, path };
}

const linesAtOnce = 1000;

/**
 * Paths of the result files that a run has made or may have made, relative to their base: the
 * planned ones, and begun ones by row. None if their list is gone: it is removed after them.
 */
export async function madeOutputs(
  storage: Pick<Storage, "open">,
  { outputs }: Pick<Plan, "outputs">,
): Promise<string[]> {
  if (!outputs) return [];
  const list = outputs.isPerRow ? begunOutputsPath : outputs.list.path;
  const paths = new Set<string>();
  try {
    for await (const line of readLines(storage, list)) paths.add(pathIn(line));
  } catch (error) {
    if (asSluiceError(error).code !== "NOT_FOUND") throw error;
  }
  paths.delete("");
  return [...paths];
}

/** After a line that a kill cut off, no file was made. */
function pathIn(line: string): string {
  try {
    return (JSON.parse(line) as { path: string }).path;
  } catch {
    return "";
  }
}
