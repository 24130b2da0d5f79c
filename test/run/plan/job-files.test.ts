import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { InputFile } from "../../../src/data/inputs.ts";
import type { RowRequest } from "../../../src/prompt/row-request.ts";
import { jobSchema } from "../../../src/run/job/schema.ts";
import {
  asksAboutFiles,
  assertInputsNamed,
  assertOpenedByEngine,
  RowFiles,
  reachOf,
} from "../../../src/run/plan/job-files.ts";
import { temporaryFolder } from "../../engines/models/context.ts";

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
    const request = { file } as RowRequest;
    const files = new RowFiles(jobOf({ allow: { folders: "/" } }));
    expect(files.whole([request], input)).toEqual([{ file: whole }]);
  });

  it("lie below the folder of their input or an allowed one, whatever leads there", async () => {
    const root = await temporaryFolder();
    for (const folder of ["in/deep", "more", "out"]) {
      await mkdir(join(root, folder), { recursive: true });
      await writeFile(join(root, folder, "a.wav"), "");
    }
    await symlink(join(root, "out"), join(root, "in/link"));
    await symlink(join(root, "more"), join(root, "also"));
    const files = new RowFiles(jobOf({ allow: { folders: [join(root, "also")] } }));
    const asked = (file: string, input = join(root, "in/rows.jsonl")) =>
      files.whole([{ file } as RowRequest], input);
    for (const file of ["deep/a.wav", `${root}/more/a.wav`, "../also/a.wav", "deep/none.wav"]) {
      expect(() => asked(file)).not.toThrow();
    }
    const outside = ["link/a.wav", "link/none.wav", "../out/a.wav", "/etc/passwd", "../in.wav"];
    for (const file of [...outside, "deep/../../out/a.wav"]) {
      expect(() => asked(file), file).toThrow(/may not name this file.*allow.folders/);
    }
    expect(() => asked(`${root}/out/a.wav`, "https://h/in/rows.jsonl")).toThrow(/may not name/);
    expect(() => asked(`${root}/in/deep/a.wav`, "s3://b/rows.jsonl")).toThrow(/may not name/);
  });

  it("are as confined where the engine opens them by a field, or a stage names them", () => {
    const opened = (row: object, changes = {}) =>
      new RowFiles(jobOf(changes)).whole([{ row } as RowRequest], "/in/rows.jsonl");
    expect(() => opened({ audio: "/in/a.wav" })).not.toThrow();
    expect(() => opened({ audio: "data:audio/wav;base64,AAAA" })).not.toThrow();
    expect(() => opened({ audio: "/etc/a.wav" })).toThrow(/may not name this file/);
    const stage = new RowFiles(jobOf({ input: "/in/**/*.jsonl" }));
    const asked = (file: string) => stage.whole([{ file } as RowRequest]);
    expect(asked("a.wav")).toEqual([{ file: "/in/a.wav" }]);
    expect(() => asked("/etc/a.wav")).toThrow(/may not name this file/);
  });

  it("of inputs are those that trust: data names, whatever lists and links say", async () => {
    const root = await temporaryFolder();
    await mkdir(join(root, "in"));
    await mkdir(join(root, "out"));
    for (const name of ["in/a.jsonl", "out/b.jsonl"]) await writeFile(join(root, name), "");
    await symlink(join(root, "out/b.jsonl"), join(root, "in/link.jsonl"));
    const assertNamed = (path: string, changes: object = {}) => {
      const input = [{ path: `${root}/in/*.jsonl` }, { path: "/l.txt", list: true }];
      assertInputsNamed(jobOf({ input, trust: "data", ...changes }), [fileAt(path)]);
    };
    expect(() => assertNamed(`${root}/in/a.jsonl`)).not.toThrow();
    expect(() => assertNamed("https://h/a.jsonl")).not.toThrow();
    for (const path of [`${root}/in/link.jsonl`, `${root}/out/b.jsonl`, "s3://b/a", "hf://d/a"]) {
      expect(() => assertNamed(path), path).toThrow(/allow\.folders/);
      expect(() => assertNamed(path, { trust: "job" })).not.toThrow();
      const folders = [`${root}/out`, "s3://b", "hf://d"];
      expect(() => assertNamed(path, { allow: { folders } })).not.toThrow();
    }
    const stage = new RowFiles(jobOf({ trust: "data", input: "s3://b/in/*.jsonl" }));
    const asked = (file: string) => stage.whole([{ file } as RowRequest], "s3://b/in/r.jsonl");
    expect(() => asked("s3://b/in/a.wav")).not.toThrow();
    expect(() => asked("s3://other/a.wav")).toThrow(/may not name/);
    expect(reachOf(jobOf({ trust: "data", input: "http://10.0.0.1/r.jsonl" })).origins).toEqual([]);
  });

  it("may be of the servers that the job itself names, and of all that it allows", () => {
    const reach = reachOf(
      jobOf({
        input: [
          { path: "http://10.0.0.1/rows.jsonl?x=1" },
          { path: "/l.txt", list: true, prefixes: { a: "https://h:8443/x/" } },
        ],
        allow: { folders: ["http://10.0.0.1/images", "/images", "http://intern/"] },
      }),
    );
    const origins = ["http://10.0.0.1", "https://h:8443", "http://intern"];
    expect(reach).toEqual({ origins, privateNetworks: false });
    expect(reachOf(jobOf({ allow: { privateNetworks: true } })).privateNetworks).toBe(true);
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
