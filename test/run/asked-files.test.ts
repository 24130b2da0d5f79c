import { describe, expect, it } from "vitest";
import type { InputFile } from "../../src/data/inputs.ts";
import type { InferenceRequest } from "../../src/foundation/inference.ts";
import { asksAboutFiles, assertOpenedByEngine, withWholePaths } from "../../src/run/asked-files.ts";
import { jobSchema } from "../../src/run/job/schema.ts";

const jobOf = (changes: object) =>
  jobSchema.parse({
    input: [{ path: "s3://b/clips/*.wav" }],
    model: { engine: "transformers", name: "./whisper", task: "automatic-speech-recognition" },
    output: { path: "/out" },
    ...changes,
  });
const fileAt = (path: string): InputFile => ({
  path,
  bytes: 1,
  modifiedMs: 0,
  format: "files",
  source: 0,
});
const aboutFiles = { prompt: { api: "transcription", file: "{{ path }}" } };

describe("files that a model is asked about", () => {
  it.each([
    ["/in/rows.jsonl", "a.wav", "/in/a.wav"],
    ["/in/rows.jsonl", "../a.wav", "/a.wav"],
    ["/in/rows.jsonl", "/a.wav", "/a.wav"],
    ["/in/rows.jsonl", "s3://b/a.wav", "s3://b/a.wav"],
    ["s3://b/in/rows.jsonl", "clips/a.wav", "s3://b/in/clips/a.wav"],
    ["s3://b/rows.jsonl", "../../a.wav", "s3://b/a.wav"],
    ["https://h/in/rows.jsonl?sig=1", "a.wav", "https://h/in/a.wav"],
    ["https://h?sig=1", "a.wav", "https://h/a.wav"],
    ["/in/rows.jsonl", "data:audio/wav;base64,AAAA", "data:audio/wav;base64,AAAA"],
  ])("lie beside their input: of %s %s is %s", (input, file, whole) => {
    const request = { file } as InferenceRequest;
    expect(withWholePaths([request], input)).toEqual([{ file: whole }]);
  });

  it("are refused while the run is planned where an engine would open far ones itself", () => {
    const far = fileAt("s3://b/clips/a.wav");
    const near = fileAt("/clips/a.wav");
    expect(() => assertOpenedByEngine(jobOf({}), [near])).not.toThrow();
    expect(() => assertOpenedByEngine(jobOf({}), [near, far])).toThrow(/of this machine alone/);
    expect(asksAboutFiles(jobOf({}))).toBe(false);
    expect(asksAboutFiles(jobOf(aboutFiles))).toBe(true);
    expect(() => assertOpenedByEngine(jobOf(aboutFiles), [far])).not.toThrow();
  });
});
