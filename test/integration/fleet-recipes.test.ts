import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { inLong } from "../long.ts";
import { root } from "../meta/source-tree.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { bucket, missingS3Server, S3Server } from "../s3-server.ts";
import { sluiceProgram } from "../sluice-program.ts";

let server: S3Server;
beforeAll(async () => {
  if (missingS3Server === undefined) server = await S3Server.start();
});
afterAll(() => server?.stop());

/** The example in a folder of its own, with `sluice` and `node` on the PATH. */
function example(variables: Record<string, string>) {
  const folder = scratchFolder();
  const examples = join(folder, "examples");
  for (const name of ["fleet-recipes", "recipes"]) {
    cpSync(join(root, "examples", name), join(examples, name), {
      recursive: true,
      filter: (path) => !path.endsWith("/out"),
    });
  }
  const programs = join(folder, "bin");
  mkdirSync(programs);
  const start = (words: string) => `#!/bin/sh\nexec "${process.execPath}" ${words} "$@"\n`;
  writeFileSync(join(programs, "sluice"), start(`"${sluiceProgram}"`), { mode: 0o755 });
  writeFileSync(join(programs, "node"), start(""), { mode: 0o755 });
  const cwd = join(examples, "fleet-recipes");
  const env = {
    ...process.env,
    ...{ PATH: `${programs}${delimiter}${process.env.PATH}`, SLUICE_HOME: join(folder, "home") },
    ...{ MODEL: "fake", ...variables },
  };
  return {
    folder: cwd,
    call: (...words: string[]) =>
      execFileSync(words[0]!, words.slice(1), {
        cwd,
        env,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe"],
      }),
  };
}

/** The tutorial: upload, create, get, worker list, task list, download. */
function follow(variables: Record<string, string>): void {
  const { folder, call } = example(variables);
  call("./upload");
  const created = call("./run", "--wait");
  const said = created.split("\n").filter((line) => line.startsWith("Run '"));
  expect(said).toHaveLength(3);
  // The very commands that it prints.
  const [get, workers, tasks] = said.map((line) => {
    const [, words = ""] = /^Run '(.*)' to /.exec(line) ?? [];
    return call(...words.split(" "));
  });
  expect(get).toMatch(/Status: +successful\n/);
  expect(get).toMatch(/ {2}Successful: +3\n {2}Running: +0\n {2}Pending: +0\n {2}Total: +3\n/);
  expect(get).toMatch(/ {2}Mount 0: +\/input = fleet-input-store/);
  expect(workers).toMatch(/^fleet-recipes-0 /m);
  expect(tasks!.match(/^000-00000-[012] .* successful +0 +fleet-recipes-\d$/gm)).toHaveLength(3);
  call("./download");
  const results = join(folder, "out/results/inferencing");
  const names = readdirSync(results).sort();
  const recipes = readdirSync(join(folder, "out/input/inferencing/recipes")).sort();
  expect(recipes).toHaveLength(30);
  expect(names).toEqual(recipes.map((name) => name.replace(/\.json$/, ".augmented.json")));
  for (const name of names) {
    const augmented = JSON.parse(readFileSync(join(results, name), "utf8"));
    expect(`${augmented.id}.augmented.json`).toBe(name);
    expect(augmented.quantitativeMeasures).toHaveProperty("summary");
  }
}

describe("examples/fleet-recipes", () => {
  it("goes through the tutorial with folders", () => follow({}));

  /** `fleet-mounts.test.ts` has buckets in `npm test`. */
  inLong?.("goes through the tutorial with buckets", (context) => {
    context.skip(missingS3Server !== undefined, missingS3Server);
    follow({
      ...server.environment,
      INPUT_STORE: `s3://${bucket}/input`,
      OUTPUT_STORE: `s3://${bucket}/output`,
    });
  });
});
