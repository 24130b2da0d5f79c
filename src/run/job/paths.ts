import { join, resolve } from "node:path";
import { withoutEnding } from "../../data/formats/result-format.ts";
import { describeEngine } from "../../engines/registry.ts";
import { datasetInputs, withAbsoluteFiles } from "./dataset.ts";
import type { JobSpec } from "./schema.ts";

/** The directory from which a key's relative path starts. */
export type BaseOf = (path: readonly string[]) => string;

interface PathRules {
  baseOf: BaseOf;
  /** The user's home directory, for `~/`. */
  userDirectory: string | undefined;
}

/** True for addresses of other places: `s3://…`, `hf:…`, `https://…`. */
function isAddress(text: string): boolean {
  return /^[A-Za-z][A-Za-z0-9+.-]+:/.test(text);
}

/** The job with every path made absolute, from the directory of the key's origin. */
export function withAbsolutePaths(job: JobSpec, rules: PathRules): JobSpec {
  const absolute = (text: string, ...path: string[]): string => {
    if (text === "-" || isAddress(text)) return text;
    if (text.startsWith("~/") && rules.userDirectory) {
      return join(rules.userDirectory, text.slice(2));
    }
    return resolve(rules.baseOf(path), text);
  };
  const dataset = job.dataset?.map((entry, index) =>
    withAbsoluteFiles(entry, (path) => absolute(path, "dataset", `${index}`, "path")),
  );
  const input = job.input.map((source, index) => ({
    ...source,
    path: absolute(source.path, "input", `${index}`, "path"),
  }));
  const { errorFile } = job.output;
  const output = {
    ...job.output,
    path: absolute(job.output.path, "output", "path"),
    ...(errorFile && { errorFile: absolute(errorFile, "output", "errorFile") }),
  };
  const folders = job.allow?.folders?.map((folder) => absolute(folder, "allow", "folders"));
  const cache = job.cache && { ...job.cache, path: absolute(job.cache.path, "cache", "path") };
  return {
    ...job,
    ...(dataset && { dataset }),
    input: dataset ? datasetInputs(dataset).map((source) => source.input) : input,
    output,
    ...(cache && { cache }),
    ...(folders && { allow: { ...job.allow, folders } }),
    ...(job.preparedDir && { preparedDir: absolute(job.preparedDir, "preparedDir") }),
    model: describeEngine(job.model).withAbsolutePaths?.(job.model, absolute) ?? job.model,
  };
}

/**
 * The output of a trial of a job: `out` becomes `out-limit20`, `results.jsonl` becomes
 * `results-limit20.jsonl`, so that a trial never touches the real run.
 */
export function trialOutput(path: string, suffix: string): string {
  const bare = path.replace(/\/+$/, "");
  const [, stem, ending] = /^(.*[^/])(\.[a-z0-9]+)$/i.exec(bare) ?? [];
  const isOther = withoutEnding(bare) === bare && stem !== undefined;
  return isOther ? `${stem}-${suffix}${ending}` : suffixed(bare, `-${suffix}`);
}

/** A path with a suffix after its name: before the extension if that is a format's. */
export function suffixed(path: string, suffix: string): string {
  const stem = withoutEnding(path);
  return `${stem}${suffix}${path.slice(stem.length)}`;
}
