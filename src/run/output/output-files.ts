import { basename, dirname, resolve } from "node:path";
import { resultFormatOf, withoutEnding } from "../../data/formats/result-format.ts";
import type { InputFile } from "../../data/inputs.ts";
import { besideFile, isBelow } from "../../data/sources/beside-file.ts";
import { fixedFolder, isGlob } from "../../data/sources/glob.ts";
import { isMapped } from "../../data/sources/list-file.ts";
import { schemeOf } from "../../data/storage/open.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { shownPath } from "../../foundation/shown-path.ts";
import type { RunLocation } from "../directory/locate.ts";
import type { JobSpec } from "../job/schema.ts";
import type { PlannedOutputs } from "../plan/plan.ts";
import { filledPattern, isPerRow, seenAs } from "./output-path.ts";

/** The destination of one input file's results. */
export interface OutputFile {
  file: string;
  /** Relative to the base of all; with `{index}` and `{id}` if each row has its own file. */
  path: string;
  /** True if a file of one row is that row, without a list, because its input is so too. */
  isObject?: true;
}

/** Result files as planned, before the input was read. */
export interface OutputPlan extends Pick<PlannedOutputs, "base" | "isPerRow"> {
  files: OutputFile[];
}

/** What the names of result files are made of. */
export interface OutputRule {
  job: JobSpec;
  location: RunLocation;
  /** Extension for names by the rule, such as `.csv`. */
  ending: string;
}

/**
 * The destination of each input file's results, if each has its own; undefined if results are in
 * parts or in one file.
 *
 * @throws SluiceError `JOB_INVALID` if two have the same destination, or one has none.
 */
export function outputFiles(
  files: readonly InputFile[],
  { job, location, ending }: OutputRule,
): OutputPlan | undefined {
  const isListed = files.some(({ output }) => output !== undefined);
  const { perInputFile } = job.output;
  if (!isListed && !perInputFile && location.pattern === null) return undefined;
  if (isListed) assertPlainOutput(files, job, location);
  const pattern = location.pattern ?? `{dir}/{stem}${ending}`;
  const folder = location.pattern === null ? location.directory : location.outside;
  const named = files.map((file) => ({
    file: file.path,
    path: file.output === undefined ? undefined : listedPlace(file, job, folder),
    name: filledPattern(pattern, {
      stem: stemOf(file.path),
      dir: folderOf(file, job, location),
      index: "{index}",
      id: "{id}",
    }),
  }));
  if (isListed) return listedOutputs(named, folder);
  const base = location.pattern === null ? "run" : "outside";
  const plan: OutputPlan = {
    base,
    isPerRow: isPerRow(pattern),
    files: named.map(({ file, name }) => ({ file, path: name })),
  };
  if (base === "run") assertResultNames(plan.files);
  if (!plan.isPerRow) assertDifferent(plan.files);
  return plan;
}

interface NamedOutput {
  file: string;
  /** The destination according to a list. */
  path: string | undefined;
  name: string;
}

function listedOutputs(named: readonly NamedOutput[], folder: string): OutputPlan {
  const targets = named.map(({ file, path, name }) => ({
    file,
    path: path ?? `${folder}/${name}`,
  }));
  const base = sharedFolder(targets.map(({ path }) => path));
  const files = targets.map(({ file, path }) => {
    if (resultFormatOf(path)) return { file, path: path.slice(base.length).replace(/^\//, "") };
    throw invalid(
      `${path} (the place for ${shownPath(file)}) does not end as results are written`,
      {
        hint: "end it in .jsonl, .json, .csv, .tsv or .parquet, also with .gz, .zst or .br behind it",
      },
    );
  });
  assertDifferent(files, "give each line of the list a place of its own behind the ;");
  return { base, isPerRow: false, files };
}

function assertPlainOutput(files: readonly InputFile[], job: JobSpec, location: RunLocation): void {
  if (location.pattern === null && location.mergedFile === null && !job.output.perInputFile) return;
  const { path, output } = files.find((file) => file.output !== undefined)!;
  throw invalid(
    `a list says that results of ${shownPath(path)} go to ${output}: it needs a directory`,
    {
      hint: "give a directory for the run's own files, without placeholders and perInputFile",
    },
  );
}

function assertDifferent(
  files: readonly OutputFile[],
  hint = "put {dir} into the path, as out/{dir}/{stem}.jsonl, or name each input once",
): void {
  const owners = new Map<string, OutputFile>();
  const inputs = new Set<string>();
  for (const output of files) {
    const { file, path } = output;
    if (inputs.has(file)) {
      throw invalid(`${shownPath(file)} is named twice`, { hint: "name each input once" });
    }
    inputs.add(file);
    const owner = owners.get(seenAs(path));
    // Inputs with such similar paths are in places that names may not distinguish.
    if (owner && (owner.path === path || seenAs(owner.file) !== seenAs(file))) {
      const both = `${shownPath(owner.file)} and of ${shownPath(file)}`;
      const alike = `, which some file systems take for ${owner.path}`;
      const problem = `results of ${both} would both go to ${path}`;
      throw invalid(owner.path === path ? problem : problem + alike, { hint });
    }
    owners.set(seenAs(path), output);
  }
}

/** Readers of the directory ignore files that begin with `_`. */
function assertResultNames(files: readonly OutputFile[]): void {
  const hidden = files.find(({ path }) => /^[_.]/.test(path));
  if (!hidden) return;
  throw invalid(
    `${shownPath(hidden.file)} would give ${hidden.path}, which is the name of no result`,
    {
      hint: "give another name by a pattern, as out/results-{stem}.jsonl",
    },
  );
}

function stemOf(path: string): string {
  const plain = /^https?:/i.test(path) ? path.replace(/[?#].*$/, "") : path;
  const name = basename(plain);
  const bare = withoutEnding(name);
  // An extension that results never have, such as `.txt`, still counts.
  if (bare !== name) return bare;
  return name.replace(/(?<=.)\.(gz|zst|br)$/i, "").replace(/(?<=.)\.[^.]*$/, "");
}

/** A file's folder in the result's path: relative to the output or the input. */
function folderOf(
  { path, source, below }: InputFile,
  { input }: JobSpec,
  { pattern, outside }: RunLocation,
): string {
  const folder = dirname(path);
  const given = input[source]?.path ?? path;
  const begin = isGlob(given) ? (below ?? fixedFolder(given)) : dirname(given);
  for (const start of [...(pattern === null ? [] : [outside]), begin]) {
    if (folder === start) return "";
    const above = start === "/" ? "/" : `${start}/`;
    if (folder.startsWith(above)) return folder.slice(above.length);
  }
  return "";
}

/**
 * A destination in a list, relative to the list's folder like its other paths.
 *
 * @param folder the output's folder, which lists may write to.
 * @throws SluiceError `JOB_INVALID` for any other folder that the job does not name.
 */
function listedPlace(
  { path, output = "", source }: InputFile,
  { input, allow }: JobSpec,
  folder: string,
): string {
  const { path: list, prefixes } = input[source]!;
  const place = besideFile(list, output);
  const whole = schemeOf(place) === undefined ? resolve(place) : place;
  const folders = [folder, ...(allow?.folders ?? [])];
  if (isMapped(whole, list, prefixes) || folders.some((each) => isBelow(whole, each))) return whole;
  const detail = `a list sends results of ${shownPath(path)} to ${shownPath(whole)}`;
  throw invalid(`${detail}, which does not lie below ${folder}`, {
    hint: "name its folder in allow.folders if you trust the list, or another output.path",
  });
}

/** The deepest common folder of all paths. */
function sharedFolder(paths: readonly string[]): string {
  let shared = dirname(paths[0]!);
  for (const path of paths) {
    if (storeOf(path) !== storeOf(shared)) {
      throw invalid(`${paths[0]} and ${path} lie in different stores`, {
        hint: "results of one run go to one store",
      });
    }
    while (!path.startsWith(shared === "/" ? "/" : `${shared}/`)) shared = dirname(shared);
  }
  return shared;
}

/** The root of a place: a bucket, or this machine. */
function storeOf(path: string): string {
  return /^[^:/]+:\/\/[^/]+/.exec(path)?.[0] ?? "/";
}

function invalid(problem: string, options: { hint: string }): SluiceError {
  return new SluiceError("JOB_INVALID", problem, { field: "output.path", ...options });
}
