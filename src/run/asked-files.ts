import type { InputFile } from "../data/inputs.ts";
import { besideFile } from "../data/sources/beside-file.ts";
import { schemeOf } from "../data/storage/open.ts";
import { SluiceError } from "../foundation/errors.ts";
import type { InferenceRequest } from "../foundation/inference.ts";
import type { JobSpec } from "./job/schema.ts";

/** True where rows of a job name files that the model is asked about. */
export function asksAboutFiles({ prompt, prompts = {} }: JobSpec): boolean {
  const asked = [prompt, ...Object.values(prompts)];
  return asked.some((options) => (options?.file ?? options?.image) !== undefined);
}

/**
 * Refuses far files that an engine would open by a field of the row: it opens files of this machine
 * alone. Those that a prompt names are copied to this machine when they are asked about.
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

/**
 * Requests of a row with whole paths, or addresses, of the files that they ask about, which rows
 * name as they lie beside their input.
 *
 * @param inputFile the file in which the row stands.
 */
export function withWholePaths(
  requests: InferenceRequest[],
  inputFile: string,
): InferenceRequest[] {
  for (const request of requests) {
    const { file } = request;
    // What a data: address holds is beside nothing.
    if (file?.startsWith("data:") === false) request.file = besideFile(inputFile, file);
  }
  return requests;
}
