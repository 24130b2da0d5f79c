import { basename, dirname } from "node:path";
import { resultFormatOf } from "../../data/formats/result-format.ts";
import { isPattern, splitPattern } from "../output/output-path.ts";

/** Where a run lies. */
export interface RunLocation {
  directory: string;
  /** The folder that the run directory lies in; of a pattern the one that it begins with. */
  outside: string;
  /** Name of the one file that results are merged into, in `outside`; null = there is none. */
  mergedFile: string | null;
  /** Pattern of many files, from `outside`, as `{stem}.augmented.json`; null = there is none. */
  pattern: string | null;
}

const stateSuffix = ".sluice";

/**
 * Where the run of an output path lies. A path that ends as a format does is a file, or names many
 * by a pattern: its run directory stands beside it, as `results.jsonl.sluice/`.
 *
 * @example
 * locateRun("/data/results.csv").directory; // "/data/results.csv.sluice"
 */
export function locateRun(output: string): RunLocation {
  const trimmed = output.replace(/(?<=.)\/+$/, "");
  const isState = trimmed.endsWith(stateSuffix);
  const path = isState ? trimmed.slice(0, -stateSuffix.length) : trimmed;
  const directory = `${path}${stateSuffix}`;
  if (isPattern(path)) {
    const { folder, pattern } = splitPattern(path);
    return { directory, outside: folder, mergedFile: null, pattern };
  }
  const isFile = resultFormatOf(path) !== undefined && (isState || !output.endsWith("/"));
  return {
    directory: isFile ? directory : trimmed,
    outside: folderOf(path),
    mergedFile: isFile ? basename(path) : null,
    pattern: null,
  };
}

/** The folder of a location; that of a whole bucket is itself. */
function folderOf(location: string): string {
  const folder = dirname(location);
  return /^[a-z0-9]+:$/i.test(folder) && location.includes("://") ? location : folder;
}
