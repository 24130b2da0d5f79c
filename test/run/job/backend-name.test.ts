import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { hasDefaultBackend } from "../../../src/run/job/backend-name.ts";
import { type JobSources, loadJob } from "../../../src/run/job/load.ts";
import { scratchFolder } from "../whole-run.ts";

const job = "input: rows.jsonl\nmodel: {engine: fake}\nprompt: '{{ text }}'\n";

function sources(text: string, others: Partial<JobSources> = {}): JobSources {
  const folder = scratchFolder();
  writeFileSync(join(folder, "job.yaml"), text);
  return { file: "job.yaml", environment: {}, workingDirectory: folder, ...others };
}

describe("hasDefaultBackend", () => {
  it("is sure of a job that nothing names a backend for", async () => {
    expect(await hasDefaultBackend(sources(job))).toBe(true);
    expect(await hasDefaultBackend({ environment: {}, workingDirectory: "/" })).toBe(true);
    const environment = { SLUICE_BACKEND: "", SLUICE_LIMIT: "3" };
    expect(await hasDefaultBackend(sources(job, { environment }))).toBe(true);
  });

  const elsewhere: [how: string, text: string, others?: Partial<JobSources>][] = [
    ["the file", `${job}backend: elsewhere\n`],
    ["a key in quotes", `${job}"backend" : elsewhere\n`],
    ["a key in escapes", `${job}"\\x62ackend": elsewhere\n`],
    ["the environment", job, { environment: { SLUICE_BACKEND: "elsewhere" } }],
    ["a flag", job, { flags: { backend: "elsewhere" } }],
    ["--set", job, { sets: ["backend=elsewhere"] }],
  ];
  for (const [how, text, others] of elsewhere) {
    it(`is not sure if ${how} names one; reading the job refuses it by name`, async () => {
      const given = sources(text, others);
      expect(await hasDefaultBackend(given)).toBe(false);
      await expect(loadJob(given)).rejects.toMatchObject({
        code: "JOB_INVALID",
        message: expect.stringContaining(
          'must be one of local, ray, slurm, kubernetes, sky, code-engine, not "elsewhere"',
        ),
      });
    });
  }

  it("is not sure of a file that SLUICE_CONFIG names, nor of one that cannot be read", async () => {
    const environment = { SLUICE_CONFIG: "job.yaml" };
    const { file: _, ...given } = sources(`${job}backend: local\n`, { environment });
    expect(await hasDefaultBackend(given)).toBe(false);
    expect(await hasDefaultBackend({ ...given, file: "gone.yaml" })).toBe(false);
  });
});
