import { basename, dirname, extname } from "node:path";

/** Where a run lies. */
export interface RunLocation {
  directory: string;
  /** The folder that the run directory lies in. */
  outside: string;
  /** Name of the one file that results are merged into, in `outside`; null = they stay in parts. */
  mergedFile: string | null;
}

const resultExtensions = new Set([".jsonl", ".ndjson"]);
const stateSuffix = ".sluice";

/**
 * Where the run of an output path lies. A path that ends in a known format extension is a file: its
 * run directory stands beside it, as `results.jsonl.sluice/`.
 *
 * @example
 * locateRun("/data/results.jsonl").directory; // "/data/results.jsonl.sluice"
 */
export function locateRun(output: string): RunLocation {
  const trimmed = output.replace(/(?<=.)\/+$/, "");
  const isState = trimmed.endsWith(stateSuffix);
  const path = isState ? trimmed.slice(0, -stateSuffix.length) : trimmed;
  const isFile = resultExtensions.has(extname(path)) && (isState || !output.endsWith("/"));
  return {
    directory: isFile ? `${path}${stateSuffix}` : trimmed,
    outside: dirname(path),
    mergedFile: isFile ? basename(path) : null,
  };
}
