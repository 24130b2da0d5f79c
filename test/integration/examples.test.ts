import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import { type Block, blocksOf, documents } from "../meta/markdown.ts";
import { root } from "../meta/source-tree.ts";
import { sluiceModule, sluiceProgram, testingModule } from "../sluice-program.ts";

/**
 * What README and docs show is executed. The marked blocks of one document run in order in one new
 * folder, with the packed package as `sluice`, on the command line and in programs.
 */
const folder = mkdtempSync(join(tmpdir(), "sluice-examples-"));
const programs = join(folder, "bin");
const packageHook = join(folder, "package-hook.mjs");

/** Points `sluice` and `sluice/testing` at the package: an example runs without an installation. */
const hookText = `import { registerHooks } from "node:module";
const faces = ${JSON.stringify({
  sluice: sluiceModule,
  "sluice/testing": testingModule,
  zod: import.meta.resolve("zod"),
})};
registerHooks({
  resolve: (name, context, next) =>
    name in faces ? { url: faces[name], shortCircuit: true } : next(name, context),
});
`;

function prepare(): void {
  mkdirSync(programs);
  symlinkSync(process.execPath, join(programs, "node"));
  const start = `#!/bin/sh\nexec "${process.execPath}" "${sluiceProgram}" "$@"\n`;
  writeFileSync(join(programs, "sluice"), start, { mode: 0o755 });
  writeFileSync(packageHook, hookText);
}

const environment = {
  PATH: `${programs}${delimiter}${process.env.PATH}`,
  HOME: folder,
  SLUICE_HOME: join(folder, "home"),
  LANG: "C.UTF-8",
  NODE_NO_WARNINGS: "1",
};

/** Runs a program to its end; output of both kinds is what a failure shows. */
function execute(program: string, parameters: string[], cwd: string, input = ""): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, parameters, { cwd, env: environment });
    const output: Buffer[] = [];
    child.stdout.on("data", (chunk) => output.push(chunk));
    child.stderr.on("data", (chunk) => output.push(chunk));
    child.on("error", reject);
    child.on("close", (code) => {
      const text = Buffer.concat(output).toString();
      if (code === 0) resolve(text);
      else reject(new Error(`exit code ${code}\n${text}`));
    });
    child.stdin.end(input);
  });
}

async function runBlock(block: Block, cwd: string): Promise<void> {
  if (/^(sh|bash|console|shell)$/.test(block.language)) {
    const script = block.text.replaceAll(/^\$ /gm, "");
    await execute("bash", ["--norc", "-euo", "pipefail", "-c", script], cwd);
  } else if (/^(ts|js|mjs|typescript|javascript)$/.test(block.language)) {
    const file = join(
      cwd,
      `example-${block.line}.${block.language.startsWith("t") ? "ts" : "mjs"}`,
    );
    writeFileSync(file, block.text);
    await execute(process.execPath, ["--import", packageHook, file], cwd);
  } else {
    throw new Error(`blocks of language "${block.language}" cannot be run`);
  }
}

describe("examples in documents", () => {
  prepare();
  const marked = documents()
    .map((document) => ({
      path: document.path,
      blocks: blocksOf(document).filter(({ task }) => task !== undefined),
    }))
    .filter(({ blocks }) => blocks.length > 0);
  const runnable = marked
    .flatMap(({ blocks }) => blocks)
    .filter(({ task }) => task && "run" in task);

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("are there", () => {
    expect(runnable.length).toBeGreaterThanOrEqual(4);
    expect(marked.map(({ path }) => path)).toContain("README.md");
    expect(runnable.filter(({ language }) => language === "ts").length).toBeGreaterThanOrEqual(1);
  });

  for (const { path, blocks } of marked) {
    it(`of ${path} run as they stand`, async () => {
      const cwd = mkdtempSync(join(folder, "document-"));
      for (const block of blocks) {
        if (block.task && "file" in block.task) {
          const file = join(cwd, block.task.file);
          mkdirSync(dirname(file), { recursive: true });
          writeFileSync(file, block.text);
        } else {
          await runBlock(block, cwd).catch((error: Error) => {
            throw new Error(`${block.path}:${block.line}: ${error.message}`, { cause: error });
          });
        }
      }
    });
  }

  it("in TypeScript have right types", async () => {
    const typed = runnable.filter(({ language }) => /^(ts|typescript)$/.test(language));
    const cwd = mkdtempSync(join(folder, "types-"));
    typed.forEach(({ text }, index) => {
      writeFileSync(join(cwd, `example-${index}.ts`), text);
    });
    writeFileSync(join(cwd, "package.json"), '{"type":"module"}');
    writeFileSync(join(cwd, "tsconfig.json"), JSON.stringify(typesConfig));
    symlinkSync(join(root, "node_modules"), join(cwd, "node_modules"));
    if (typed.length === 0) return;
    const compiler = join(root, "node_modules/typescript/bin/tsc");
    const result = await promisify(execFile)(process.execPath, [compiler, "-p", cwd]).catch(
      (error: { stdout: string }) => ({ stdout: error.stdout }),
    );
    expect(result.stdout).toBe("");
  });

  it("of the examples folder are each complete", () => {
    const folders = readdirSync(join(root, "examples"), { withFileTypes: true }).filter((entry) =>
      entry.isDirectory(),
    );
    expect(folders.length).toBeGreaterThanOrEqual(1);
    const empty = folders.filter(
      ({ name }) =>
        !readdirSync(join(root, "examples", name)).some((file) =>
          /^(job|fleet|serve)\./.test(file),
        ),
    );
    expect(empty.map(({ name }) => name)).toEqual([]);
  });
});

const typesConfig = {
  extends: join(root, "tsconfig.json"),
  compilerOptions: {
    types: ["node"],
    typeRoots: [join(root, "node_modules/@types")],
    paths: {
      sluice: [join(root, "src/index.ts")],
      "sluice/testing": [join(root, "src/testing/index.ts")],
    },
    noUnusedLocals: false,
    noUnusedParameters: false,
  },
  include: ["*.ts"],
};
