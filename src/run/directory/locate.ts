import { basename, dirname } from "node:path";
import { resultFormatOf } from "../../data/formats/result-format.ts";
import { isPattern, splitPattern } from "../output/output-path.ts";

/** The place of a run. */
export interface RunLocation {
  directory: string;
  /** The folder of the run directory; for a pattern, the folder that it begins with. */
  outside: string;
  /** Name of the single result file, in `outside`; null = there is none. */
  mergedFile: string | null;
  /**
   * Pattern of many files, relative to `outside`, such as `{stem}.augmented.json`; null = there is
   * none.
   */
  pattern: string | null;
}

const stateSuffix = ".sluice";

/**
 * The run's place for an output path. A path with the extension of a format is a file, or names
 * many by a pattern: its run directory lies beside it, such as `results.jsonl.sluice/`.
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

/** The folder of a location; a whole bucket is its own. */
function folderOf(location: string): string {
  const folder = dirname(location);
  return /^[a-z0-9]+:\/$/i.test(folder) && location.includes("://") ? location : folder;
}
