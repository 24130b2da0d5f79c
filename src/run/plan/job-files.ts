import { realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import type { InputFile } from "../../data/inputs.ts";
import { besideFile, isBelow } from "../../data/sources/beside-file.ts";
import { fixedFolder, isGlob } from "../../data/sources/glob.ts";
import { schemeOf } from "../../data/storage/open.ts";
import { describeEngine } from "../../engines/registry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { Reach } from "../../foundation/reach.ts";
import type { RowRequest } from "../../prompt/row-request.ts";
import type { JobSpec } from "../job/schema.ts";

/** True if rows of a job name files for the model. */
export function asksAboutFiles({ prompt, prompts = {} }: JobSpec): boolean {
  const asked = [prompt, ...Object.values(prompts)];
  return asked.some((options) => (options?.file ?? options?.image) !== undefined);
}

/**
 * Refuses remote files that an engine would open by a field of the row: engines open only local
 * files. Files that a prompt names are copied to this machine for their requests.
 *
 * @throws SluiceError `JOB_INVALID` with the way out.
 */
export function assertOpenedByEngine(job: JobSpec, files: readonly InputFile[]): void {
  const { model } = job;
  const opensRows =
    model.engine === "transformers" && model.task === "automatic-speech-recognition";
  if (!opensRows || asksAboutFiles(job)) return;
  const far = files.find(({ path, format }) => format === "files" && schemeOf(path) !== undefined);
  if (!far) return;
  throw new SluiceError("JOB_INVALID", "engine transformers opens files of this machine alone", {
    field: "model.audioColumn",
    hint: 'let a prompt name the file, which is fetched then: {api: transcription, file: "{{ path }}"}',
  });
}

export class RowFiles {
  readonly #job: JobSpec;
  readonly #folders: readonly string[];
  #last: { folder: string; real: string } | undefined;

  constructor(job: JobSpec) {
    this.#job = job;
    this.#folders = (job.allow?.folders ?? []).map(realPath);
  }

  /**
   * A row's requests with whole paths, or addresses, of the files in them: rows name them relative
   * to their input.
   *
   * @param inputFile the file of the row; default, for rows that stages made: one in the folder
   *   that the job names first.
   * @throws SluiceError `FILE_REFUSED` for a local file outside the input's folder and outside
   *   those that the job allows.
   */
  whole(
    requests: RowRequest[],
    inputFile = `${fixedFolder(this.#job.input[0]!.path)}/rows`,
  ): RowRequest[] {
    const { model } = this.#job;
    const { opensFile } = describeEngine(model);
    for (const request of requests) {
      const { file } = request;
      // The content of a data: address has no place that others could be relative to.
      if (file?.startsWith("data:") === false) request.file = besideFile(inputFile, file);
      const opened = request.file ?? opensFile?.(model, request);
      if (opened !== undefined) this.#assertAllowed(opened, inputFile);
    }
    return requests;
  }

  #assertAllowed(file: string, inputFile: string): void {
    if (file.startsWith("data:") || /^https?:/i.test(file)) return;
    // Stores are read with the keys of the person who runs the job.
    if (schemeOf(file) !== undefined && this.#job.trust !== "data") return;
    const path = realPath(file);
    if (isBelow(path, this.#folderOf(inputFile))) return;
    if (this.#folders.some((folder) => isBelow(path, folder))) return;
    const detail = `${file} lies neither below the folder of the input nor in allow.folders`;
    throw new SluiceError("FILE_REFUSED", detail);
  }

  /** The folder of an input file; a remote input has none here. */
  #folderOf(inputFile: string): string {
    const folder = dirname(inputFile);
    if (this.#last?.folder === folder) return this.#last.real;
    const real = schemeOf(inputFile) === undefined ? realPath(folder) : folder;
    this.#last = { folder, real };
    return real;
  }
}

/**
 * Refuses input files outside those that a job with `trust: data` names, to which lists or links
 * may lead.
 *
 * @throws SluiceError `FILE_REFUSED`.
 */
export function assertInputsNamed({ trust, input, allow }: JobSpec, files: readonly InputFile[]) {
  if (trust !== "data") return;
  const own = input.filter(({ list }) => !list).map(({ path }) => path);
  const named = own.map((path) => (isGlob(path) ? fixedFolder(path) : path));
  const places = [...named, ...(allow?.folders ?? [])].map(realPath);
  for (const { path } of files) {
    if (/^https?:/i.test(path)) continue;
    const real = realPath(path);
    if (places.some((place) => real === place || isBelow(real, place))) continue;
    const detail = `${path} lies neither where input says nor in allow.folders`;
    throw new SluiceError("FILE_REFUSED", detail);
  }
}

/** A path with its links resolved, so that none leads out of a folder. */
function realPath(path: string): string {
  if (schemeOf(path) !== undefined) return path;
  try {
    return realpathSync.native(path);
  } catch {
    // A missing file is checked at its expected place.
    const folder = dirname(resolve(path));
    return folder === "/" ? resolve(path) : join(realPath(folder), basename(path));
  }
}

/** The web servers that inputs and rows of a job may use. */
export function reachOf({ input, allow, trust }: JobSpec): Reach {
  const trusted = trust === "data" ? [] : input;
  const written = [
    ...trusted.flatMap(({ path, prefixes = {} }) => [path, ...Object.values(prefixes)]),
    ...(allow?.folders ?? []),
  ].filter((path) => /^https?:/i.test(path) && URL.canParse(path));
  return {
    origins: [...new Set(written.map((path) => new URL(path).origin))],
    privateNetworks: allow?.privateNetworks ?? false,
  };
}
