import { execFile } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { isBuiltin } from "node:module";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startFakeServer } from "../../src/testing/fake-server.ts";
import { committedFiles } from "../meta/committed.ts";
import { root } from "../meta/source-tree.ts";
import { copyFiles, installPacked } from "../packed-package.ts";

/**
 * The package as a user gets it: packed from a copy of the checkout (the checkout's own dist stays
 * as it is), installed into an empty folder, and used there.
 */
const folder = mkdtempSync(join(tmpdir(), "sluice-pack-"));
const copy = join(folder, "checkout");
const user = join(folder, "user");

interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

function execute(program: string, parameters: string[], cwd: string): Promise<Ended> {
  const path = `${dirname(process.execPath)}${delimiter}${process.env.PATH}`;
  const env = { ...process.env, PATH: path, SLUICE_HOME: join(folder, "home") };
  return new Promise((resolve) => {
    const child = execFile(
      program,
      parameters,
      { cwd, env, maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) => {
        const code = error ? (typeof error.code === "number" ? error.code : 1) : 0;
        resolve({ code, stdout, stderr });
      },
    );
    child.stdin?.end();
  });
}

async function succeed(program: string, parameters: string[], cwd = user): Promise<string> {
  const { code, stdout, stderr } = await execute(program, parameters, cwd);
  expect(code, `${program} ${parameters.join(" ")}\n${stdout}\n${stderr}`).toBe(0);
  return stdout;
}

/** Packages whose code is part of ours. */
const bundled = ["@huggingface/jinja", "commander", "picomatch", "undici", "yaml", "yauzl", "zod"];

/** What `npx sluice` starts; npm itself takes longer than a small run. */
const installedProgram = join(user, "node_modules/.bin/sluice");
const sluice = (...parameters: string[]) => succeed(installedProgram, parameters);
const textOf = (name: string) => readFileSync(join(user, name), "utf8");
const networkTrouble = /ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENOTCACHED|E50\d/;

describe("the packed package", () => {
  let unreachable = "";
  let packed: string[] = [];
  let made: string[] = [];

  beforeAll(async () => {
    copyFiles(committedFiles(), copy);
    // It was built by `npm pack` in a checkout like this one.
    cpSync(join(installPacked(), "dist"), join(copy, "dist"), { recursive: true });
    mkdirSync(user);
    // The package is packed behind the demo, and behind an example that wrote beside its job.
    await succeed("npm", ["run", "demo", "--", "--model", "fake"], copy);
    const beside = ["run", "-c", "examples/recipes/job.yaml", "--model", "fake"];
    await succeed(process.execPath, ["bin/sluice.cjs", ...beside], copy);
    made = readdirSync(join(copy, "examples/recipes"));
    const listing = JSON.parse(
      await succeed("npm", ["pack", "--json", "--silent", "--ignore-scripts"], copy),
    ) as unknown;
    const entry = (Array.isArray(listing) ? listing : Object.values(listing as object))[0] as {
      filename: string;
      files: { path: string }[];
    };
    packed = entry.files.map(({ path }) => path);
    writeFileSync(join(user, "package.json"), '{"name":"user","private":true}\n');
    const install = ["install", "--prefer-offline", "--no-audit", "--no-fund"];
    const done = await execute("npm", [...install, join(copy, entry.filename)], user);
    if (done.code !== 0 && networkTrouble.test(done.stderr)) {
      unreachable = "the package registry cannot be reached";
    } else {
      expect(done.code, done.stderr).toBe(0);
    }
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("holds what it needs and nothing of the workshop", () => {
    expect(packed).toEqual(
      expect.arrayContaining([
        "LICENSE",
        "README.md",
        "bin/sluice.cjs",
        "dist/index.js",
        "dist/index.d.ts",
        "dist/testing/index.d.ts",
        "dist/cli/main.cjs",
        "dist/engines/host/main.js",
        "dist/THIRD-PARTY-NOTICES.txt",
        "schema/job.json",
        "python/sluice_predictor.py",
        "python/hugging_face_predictor.py",
        "python/sluice_openvino.py",
      ]),
    );
    expect(packed.filter((path) => /^(src|test|bench|scripts|\.ci)\//.test(path))).toEqual([]);
  });

  it("holds examples and nothing that they wrote", () => {
    expect(made.sort()).toEqual(["README.md", "job.yaml", "out", "recipes.jsonl"]);
    const committed = committedFiles().filter((path) => path.startsWith("examples/"));
    expect(packed.filter((path) => path.startsWith("examples/")).sort()).toEqual(committed.sort());
    expect(existsSync(join(copy, "demo-out/_SUCCESS"))).toBe(true);
    // The first job of the README writes there.
    expect(existsSync(join(copy, "out"))).toBe(false);
    expect(packed.filter((path) => /^out\b|part-0|_manifest/.test(path))).toEqual([]);
  });

  it("prints its version", async (context) => {
    context.skip(unreachable !== "", unreachable);
    const { version } = JSON.parse(textOf("node_modules/sluice/package.json")) as {
      version: string;
    };
    expect(await succeed("npx", ["--no-install", "sluice", "--version"])).toContain(version);
  });

  it("runs a job in worker processes, and verifies it", async (context) => {
    context.skip(unreachable !== "", unreachable);
    const rows = Array.from({ length: 20 }, (_, index) => `{"text":"row ${index}"}\n`);
    writeFileSync(join(user, "x.jsonl"), rows.join(""));
    const asked = ["--input", "x.jsonl", "--model", "fake", "--prompt", "Say {{ text }}"];
    const stdout = await sluice("run", ...asked, "--output", "y.jsonl", "--workers.max", "2");
    const summary = JSON.parse(stdout.trimEnd().split("\n").at(-1)!) as Record<string, unknown>;
    expect(summary).toMatchObject({ status: "SUCCESS", sealed: true, response_count: 20 });
    const results = textOf("y.jsonl").trimEnd().split("\n");
    expect(results.map((line) => (JSON.parse(line) as { text: string }).text)).toEqual(
      rows.map((_, index) => `row ${index}`),
    );
    await sluice("verify", "y.jsonl");
  });

  it("keeps the code that it compiled, and does without", async (context) => {
    context.skip(unreachable !== "", unreachable);
    const cache = join(folder, "code");
    writeFileSync(join(user, "one.jsonl"), '{"text":"a"}\n');
    const asked = ["--input", "one.jsonl", "--model", "fake", "--prompt", "{{ text }}"];
    const run = async (settings: readonly string[] = [`NODE_COMPILE_CACHE=${cache}`]) => {
      const call = [installedProgram, "run", ...asked, "--output", "one-answer", "--overwrite"];
      await succeed("env", [...settings, ...call]);
    };
    const kept = () =>
      readdirSync(cache, { recursive: true, encoding: "utf8" })
        .filter((name) => /\/(start|coordinator)-[\w-]{8}\.cjs\.\w+$/.test(name))
        .map((name) => join(cache, name));

    await run();
    const programs = kept().map((file) => file.split(".").at(-1));
    expect(new Set(programs)).toEqual(new Set(["run", "worker"]));
    for (const file of kept()) expect(statSync(file).mode & 0o777).toBe(0o600);

    // A part of zeros: V8 itself would not see it.
    const damaged = kept()[0]!;
    const bytes = readFileSync(damaged);
    bytes.fill(0, bytes.length / 2, bytes.length / 2 + 100);
    writeFileSync(damaged, bytes);
    await run();
    expect(readFileSync(damaged).equals(bytes)).toBe(false);

    const others = dirname(damaged);
    for (const file of kept()) rmSync(file);
    chmodSync(others, 0o777);
    await run();
    expect(kept()).toEqual([]);
    await run(["NODE_DISABLE_COMPILE_CACHE=1"]);
    chmodSync(others, 0o755);
    await run();
    expect(kept().length).toBeGreaterThan(0);
  });

  it("runs a job over HTTP with the part of undici that is in the bundle", async (context) => {
    context.skip(unreachable !== "", unreachable);
    const server = await startFakeServer();
    try {
      const model = ["--model", "openai:any", "--base-url", server.baseUrl];
      const asked = ["--input", "x.jsonl", ...model, "--prompt", "Say {{ text }}"];
      const stdout = await sluice("run", ...asked, "--output", "http.jsonl");
      const summary = JSON.parse(stdout.trimEnd().split("\n").at(-1)!) as Record<string, unknown>;
      expect(summary).toMatchObject({ status: "SUCCESS", sealed: true, response_count: 20 });
    } finally {
      await server.close();
    }
  });

  it("ships the licences of the packages in the bundle", () => {
    const notices = readFileSync(join(copy, "dist/THIRD-PARTY-NOTICES.txt"), "utf8");
    for (const name of bundled) expect(notices).toMatch(new RegExp(`^${name} [0-9.]+ \\(`, "m"));
    expect(notices).toContain("Permission is hereby granted, free of charge");
  });

  it("is imported by a module, and finds an error of its own there", async (context) => {
    context.skip(unreachable !== "", unreachable);
    const program = [
      'import * as sluice from "sluice";',
      'import * as testing from "sluice/testing";',
      "console.log(Object.keys(sluice).length > 0, Object.keys(testing).length > 0);",
    ];
    writeFileSync(join(user, "use.mjs"), program.join("\n"));
    expect(await succeed(process.execPath, ["use.mjs"])).toBe("true true\n");
    const required = 'console.log(typeof require("sluice").run)';
    expect(await succeed(process.execPath, ["--eval", required])).toBe("function\n");
  });

  it("brings its types", async (context) => {
    context.skip(unreachable !== "", unreachable);
    const program = [
      'import * as sluice from "sluice";',
      'import * as testing from "sluice/testing";',
      "export const names: string[] = [...Object.keys(sluice), ...Object.keys(testing)];",
      "// @ts-expect-error a name that is not there is refused, so the types are real",
      "sluice.noSuchName;",
    ];
    writeFileSync(join(user, "use.ts"), `${program.join("\n")}\n`);
    const compilerOptions = {
      target: "es2024",
      module: "nodenext",
      strict: true,
      // The strictest that a user may set: with it, more of the declarations can be refused.
      exactOptionalPropertyTypes: true,
      noEmit: true,
      types: ["node"],
      typeRoots: [join(root, "node_modules/@types")],
      // A type that a library brings, which nobody installs, would be any.
      skipLibCheck: false,
    };
    writeFileSync(
      join(user, "tsconfig.json"),
      JSON.stringify({ compilerOptions, include: ["use.ts"] }),
    );
    const compiler = join(root, "node_modules/typescript/bin/tsc");
    expect(await succeed(process.execPath, [compiler, "-p", user])).toBe("");
  });

  it("imports nothing but files that are there and what Node brings", () => {
    const dist = join(copy, "dist");
    const files = readdirSync(dist, { recursive: true, encoding: "utf8" });
    const forms = [
      { extension: ".js", imports: /^import .*? from "([^"]+)";/gm },
      { extension: ".cjs", imports: /^(?:let|const) \w+ = require\("([^"]+)"\);/gm },
    ];
    const imports = forms.flatMap((form) => {
      const scripts = files.filter((name) => name.endsWith(form.extension));
      expect(scripts.length).toBeGreaterThanOrEqual(30);
      const found = scripts.flatMap((name) =>
        [...readFileSync(join(dist, name), "utf8").matchAll(form.imports)].map(([, target]) =>
          target!.startsWith(".") ? join(dist, dirname(name), target!) : target!,
        ),
      );
      expect(found.length).toBeGreaterThanOrEqual(100);
      return found;
    });
    const isThere = (target: string) => isBuiltin(target) || existsSync(target);
    expect(imports.filter((target) => !isThere(target))).toEqual([]);
  });
});
