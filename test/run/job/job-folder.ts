import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import type { SluiceError } from "../../../src/foundation/errors.ts";
import { type JobSources, type LoadedJob, loadJob } from "../../../src/run/job/load.ts";

/** A folder for job files that goes away after the tests of its file. */
export function jobFolder() {
  const folder = mkdtempSync(join(tmpdir(), "sluice-job-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const load = (
    text: string | undefined,
    sources: Partial<JobSources> = {},
    name = "job.yaml",
  ): Promise<LoadedJob> => {
    if (text !== undefined) writeFileSync(join(folder, name), text);
    const file = text === undefined ? undefined : name;
    return loadJob({ file, environment: {}, workingDirectory: folder, ...sources });
  };
  const fail = async (
    text: string | undefined,
    sources: Partial<JobSources> = {},
    name = "job.yaml",
  ): Promise<SluiceError> => {
    try {
      await load(text, sources, name);
    } catch (error) {
      return error as SluiceError;
    }
    throw new Error("the job was taken");
  };
  return { folder, load, fail };
}

/** The least that makes a job, with what comes after it. */
export const small = (rest = "") => `input: rows.jsonl
model: { engine: fake }
prompt: "Say {{ text }}"
${rest}`;
