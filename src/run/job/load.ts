import { dirname, resolve } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { checkedJob } from "./check.ts";
import { JobDraft } from "./draft.ts";
import { type JobFile, readJobFile } from "./job-file.ts";
import { applyEnvironment, applyFile, applyFlags, type JobFlags } from "./layers.ts";
import { trialOutput, withAbsolutePaths } from "./paths.ts";
import { type Origin, type Problem, problemsError } from "./problem.ts";
import type { JobSpec } from "./schema.ts";
import { misplacedProblems, widenedProblems } from "./trust.ts";

export interface JobSources {
  /** The job file; default: the one in `SLUICE_CONFIG`, or none. */
  file?: string | undefined;
  environment: Readonly<Record<string, string | undefined>>;
  /** `key=value` texts of `--set`. */
  sets?: readonly string[];
  flags?: JobFlags;
  workingDirectory: string;
  /** Translates a file of another program into a job file. Default: the file is a job file. */
  translate?(file: JobFile): JobFile;
}

export interface LoadedJob {
  job: JobSpec;
  /** The origin of the value of a dotted key. */
  originOf(key: string): Origin;
}

/**
 * The job from a job file, the environment and flags: defaults < file < environment < flags. Paths
 * become absolute: those of the file from its directory, all others from `workingDirectory`.
 *
 * @throws SluiceError `JOB_INVALID`, `OPTION_UNKNOWN` (a flag or variable without a key) or
 *   `ENV_MISSING`, with every problem, its file, line and key.
 * @example
 * const { job } = await loadJob({
 *   file: "job.yaml",
 *   environment: { SLUICE_LIMIT: "20" },
 *   flags: { "generation.temperature": "0.3" },
 *   workingDirectory: "/home/me/recipes",
 * });
 */
export async function loadJob(sources: JobSources): Promise<LoadedJob> {
  const { environment, workingDirectory, flags = {}, sets = [], translate } = sources;
  const named = sources.file ?? (environment.SLUICE_CONFIG || undefined);
  const file = named === undefined ? undefined : resolve(workingDirectory, named);
  const draft = new JobDraft();
  const problems: Problem[] = [];
  const isUntrusted = flags.untrusted === true;
  if (named !== undefined) {
    // A stranger's job would send the values of variables to its server.
    const shown = isUntrusted ? {} : environment;
    const read = await readJobFile(named, shown, workingDirectory);
    problems.push(...read.problems.map((each) => (isUntrusted ? unfilled(each) : each)));
    applyFile(draft, translate?.(read) ?? read);
    if (isUntrusted) problems.push(...asProblems(widenedProblems(draft.value), draft));
  }
  problems.push(...(await applyEnvironment(draft, environment)));
  problems.push(...(await applyFlags(draft, flags, sets)));
  if (Object.keys(draft.value).length === 0 && problems.length === 0) throw nothingGiven();
  const job = checkedJob(draft, problems);
  const baseOf = (path: readonly string[]) => {
    const { from } = draft.originOf(path);
    // A default is read as if it were in the job file.
    const isOfFile = file !== undefined && (from === "file" || from === "default");
    return isOfFile ? dirname(file) : workingDirectory;
  };
  const absolute = withAbsolutePaths(job, { baseOf, userDirectory: environment.HOME });
  if (isUntrusted && file !== undefined) assertNamed(absolute, draft);
  return {
    job: withTrialOutput(absolute, draft),
    originOf: (key) => draft.originOf(key.split(".")),
  };
}

function unfilled(problem: Problem): Problem {
  if (problem.code !== "ENV_MISSING") return problem;
  const name = problem.message.split(" ")[0];
  const message = `\${${name}} is not filled in, for the job file is not trusted`;
  return { ...problem, code: "JOB_INVALID", message, hint: "take it out, or read the job first" };
}

/** @throws SluiceError `JOB_INVALID` for places that only the job file names. */
function assertNamed(job: JobSpec, draft: JobDraft): void {
  const isOfFile = (key: string) =>
    ["file", "default"].includes(draft.originOf(key.split(".")).from);
  const problems = asProblems(misplacedProblems(job, isOfFile), draft);
  if (problems.length > 0) throw problemsError(problems);
}

function asProblems(found: readonly [key: string, message: string][], draft: JobDraft): Problem[] {
  return found.map(([key, message]) => {
    const path = key.split(".");
    return { code: "JOB_INVALID", path, message, origin: draft.originOf(path) };
  });
}

function withTrialOutput(job: JobSpec, draft: JobDraft): JobSpec {
  if (draft.originOf(["output", "path"]).from === "flag") return job;
  const isTrial = (key: "limit" | "sample") =>
    job[key] !== undefined && !["file", "default"].includes(draft.originOf([key]).from);
  const suffix = (["limit", "sample"] as const)
    .filter(isTrial)
    .map((key) => `${key}${job[key]}`)
    .join("-");
  if (suffix === "") return job;
  const { path, errorFile } = job.output;
  const output = {
    ...job.output,
    path: trialOutput(path, suffix),
    errorFile: errorFile && trialOutput(errorFile, suffix),
  };
  return { ...job, output };
}

function nothingGiven(): SluiceError {
  return new SluiceError("USAGE", "there is no job", {
    hint: "name a job file (sluice run job.yaml), or give --input, --model and --prompt; sluice init writes a job file",
  });
}
