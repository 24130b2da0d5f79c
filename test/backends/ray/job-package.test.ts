import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packJob, zipped } from "../../../src/backends/ray/job-package.ts";
import { loadJob } from "../../../src/run/job/load.ts";
import { scratchFolder } from "../../run/whole-run.ts";

/** Unpacks an archive as Ray does. */
function unpacked(archive: Uint8Array): string {
  const folder = scratchFolder();
  writeFileSync(join(folder, "a.zip"), archive);
  const program = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])";
  execFileSync("python3", ["-c", program, join(folder, "a.zip"), join(folder, "all")]);
  return join(folder, "all");
}

/** The files below a folder, by their paths. */
const listed = (folder: string) =>
  execFileSync("find", [".", "-type", "f"], { cwd: folder, encoding: "utf8" })
    .trim()
    .split("\n")
    .map((path) => path.slice(2))
    .sort();

describe("the package of a job", () => {
  it("is an archive that Python reads, the same for the same files", async () => {
    const large = Buffer.alloc(3 * 2 ** 20, "some words ");
    const files = [
      { name: "/a/größe.txt", data: Buffer.from("größe") },
      { name: "empty", data: Buffer.alloc(0) },
      { name: "b/large", data: large },
    ];
    const archive = await zipped(files);
    expect(await zipped(files)).toEqual(archive);
    const folder = unpacked(archive);
    expect(listed(folder)).toEqual(["a/größe.txt", "b/large", "empty"]);
    expect(readFileSync(join(folder, "a/größe.txt"), "utf8")).toBe("größe");
    expect(readFileSync(join(folder, "b/large"))).toEqual(large);
  });

  it("holds the same job without its secrets, and the code beside its module", async () => {
    const folder = scratchFolder();
    mkdirSync(join(folder, "code/lib"), { recursive: true });
    mkdirSync(join(folder, "code/node_modules/x"), { recursive: true });
    mkdirSync(join(folder, "code/out/_sluice"), { recursive: true });
    for (const name of ["predict.mjs", "lib/a.mjs", "node_modules/x/i.js", ".env", "out/part"]) {
      writeFileSync(join(folder, "code", name), name);
    }
    writeFileSync(join(folder, "code/rows.jsonl"), "{}\n");
    mkdirSync(join(folder, "shared"));
    writeFileSync(join(folder, "shared/b.mjs"), "b");
    symlinkSync("../shared", join(folder, "code/linked"));
    symlinkSync("rows.jsonl", join(folder, "code/same.jsonl"));
    symlinkSync("../shared/b.mjs", join(folder, "code/b.mjs"));
    symlinkSync("../../code", join(folder, "code/lib/loop"));
    symlinkSync("nowhere", join(folder, "code/broken"));
    writeFileSync(join(folder, "package.json"), "{}");
    const written = {
      input: "code/rows.jsonl",
      model: { engine: "predictor", module: "code/predict.mjs", options: { text: "$${HOME}" } },
      output: "out",
      backend: "ray",
      env: { API_KEY: "$" + "{API_KEY}", PLAIN: "a" },
      ray: { address: "http://head:8265", software: "installed" },
    };
    writeFileSync(join(folder, "job.json"), JSON.stringify(written));
    const environment = { API_KEY: "sk-123456789", HOME: "/home/me" };
    const load = (file: string) => loadJob({ file, environment, workingDirectory: folder });
    const { job } = await load("job.json");
    const { name, archive } = await packJob(job);
    expect((await packJob(job)).name).toBe(name);
    const target = unpacked(archive);
    const code = join("files", folder, "code");
    expect(listed(target)).toEqual(
      [
        ...[join(code, "lib/a.mjs"), join(code, "predict.mjs"), "files/package.json"],
        ...[join(code, "b.mjs"), join(code, "linked/b.mjs")],
        ...[join("files", folder, "package.json"), "job.json"],
      ].sort(),
    );
    expect(readFileSync(join(target, "job.json"), "utf8")).not.toContain("sk-123");
    expect((await load(join(target, "job.json"))).job).toEqual(job);
    expect(job.model).toMatchObject({ options: { text: "$" + "{HOME}" } });
  });

  it("names the file with which it is too large, and reads it not", async () => {
    const folder = scratchFolder();
    mkdirSync(join(folder, "code"));
    writeFileSync(join(folder, "code/predict.mjs"), "");
    writeFileSync(join(folder, "rows.jsonl"), "{}\n");
    writeFileSync(join(folder, "large"), "");
    truncateSync(join(folder, "large"), 2 ** 40);
    symlinkSync("..", join(folder, "code/data"));
    const written = {
      ...{ input: "rows.jsonl", output: "out", backend: "ray" },
      model: { engine: "predictor", module: "code/predict.mjs" },
      ray: { address: "http://head:8265", software: "installed" },
    };
    writeFileSync(join(folder, "job.json"), JSON.stringify(written));
    const place = { environment: {}, workingDirectory: folder };
    const { job } = await loadJob({ file: "job.json", ...place });
    await expect(packJob(job)).rejects.toThrow(
      `${join(folder, "code/data/large")}: 1048577 MiB would be sent`,
    );
  });
});
