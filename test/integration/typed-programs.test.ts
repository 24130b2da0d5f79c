import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { rolldown } from "rolldown";
import { afterAll, describe, expect, it } from "vitest";
import { root } from "../meta/source-tree.ts";
import { installPacked } from "../packed-package.ts";

/** Programs of users against the types and files of the packed package. */
const folder = mkdtempSync(join(tmpdir(), "sluice-typed-programs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const installed = installPacked();
mkdirSync(join(folder, "node_modules/@types"), { recursive: true });
symlinkSync(installed, join(folder, "node_modules/sluice"));
symlinkSync(join(dirname(installed), "zod"), join(folder, "node_modules/zod"));
symlinkSync(join(root, "node_modules/@types/node"), join(folder, "node_modules/@types/node"));
writeFileSync(join(folder, "package.json"), '{ "name": "program", "type": "module" }');

function node(...parameters: string[]): Promise<{ code: number; text: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, parameters, { cwd: folder }, (error, stdout, stderr) => {
      resolve({ code: Number(error?.code ?? 0), text: stdout + stderr });
    });
  });
}

/** A wrong statement, and what the compiler has to say of it. */
const wrong: readonly [statement: string, message: RegExp][] = [
  [
    'run({ input: "a", model: { engine: "openai", name: "m", baseURL: "http://x" }, prompt: "x" })',
    /'baseURL' does not exist in type 'JobModelOpenai'. Did you mean to write 'baseUrl'\?/,
  ],
  [
    'run({ input: "a", model: { engine: "fake" }, promt: "x" })',
    /'promt' does not exist in type 'JobInput'. Did you mean to write 'prompt'\?/,
  ],
  [
    'run({ input: "a", model: { engine: "fake" }, generation: { maxNewTokens: "10" } })',
    /Type 'string' is not assignable to type 'number'/,
  ],
  [
    'run({ input: "a", model: { engine: "lama", name: "m" }, prompt: "x" })',
    /Did you mean '"llama"'\?/,
  ],
  [
    'run({ input: "a", model: { engine: "predictor" } })',
    /Property 'module' is missing in type .* but required in type 'JobModelPredictor'/s,
  ],
  [
    "rows.mapBatches((batch) => batch, { batchsize: 4 })",
    /'batchsize' does not exist .* Did you mean to write 'batchSize'\?/s,
  ],
  [
    'rows.mapBatches((batch) => batch, { batchSize: "4" })',
    /Type 'string' is not assignable to type 'number'/,
  ],
  [
    'rows.mapBatches(Scaled, { constructorArgs: ["ten"] })',
    /Type 'string' is not assignable to type 'number'/,
  ],
  [
    "rows.mapBatches((batch) => batch.map(({ txt }) => ({ txt })))",
    /Property 'txt' does not exist on type '{ id: number; text: string; }'/,
  ],
  ['rows.select("txt")', /Argument of type '"txt"' is not assignable .* '"id" \| "text"'/],
];

const preamble = `import { dataset, run } from "sluice";
const rows = dataset.from([{ id: 1, text: "a" }]);
class Scaled {
  readonly by: number;
  constructor(by: number) { this.by = by; }
  call(batch: { id: number }[]) { return batch.map(({ id }) => ({ id: id * this.by })); }
}
`;

describe("types of the package", () => {
  it("point at the wrong key, in few words", async () => {
    writeFileSync(
      join(folder, "wrong.ts"),
      `${preamble}${wrong.map(([statement]) => `void ${statement};`).join("\n")}\nvoid Scaled;\n`,
    );
    const options = {
      ...{ target: "esnext", module: "nodenext", strict: true, noEmit: true, skipLibCheck: true },
      types: ["node"],
    };
    const config = { compilerOptions: options, include: ["wrong.ts"] };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
    const { text } = await node(join(root, "node_modules/typescript/bin/tsc"), "-p", ".");
    const said = new Map<number, string>();
    for (const each of text.split(/^(?=wrong\.ts\()/m)) {
      const line = Number(/^wrong\.ts\((\d+),/.exec(each)?.[1]);
      said.set(line, (said.get(line) ?? "") + each);
    }
    const first = preamble.split("\n").length;
    for (const [at, [statement, message]] of wrong.entries()) {
      const found = said.get(first + at) ?? text;
      expect(found, statement).toMatch(message);
      expect(found.length, found).toBeLessThan(700);
    }
    expect(said.size, text).toBe(wrong.length);
  }, 120_000);

  it("say what each key of a job means, and engines by name", () => {
    for (const name of ["job-input", "model-input"]) {
      const text = readFileSync(join(installed, `dist/run/job/${name}.d.ts`), "utf8");
      const lines = text.split("\n");
      const keys = lines.flatMap((line, at) => (/^ {4}\w+\??:/.test(line) ? [at] : []));
      expect(keys.length).toBeGreaterThan(100);
      const bare = keys.filter((at) => !lines[at - 1]!.endsWith("*/")).map((at) => lines[at]);
      expect(bare).toEqual([]);
    }
  });
});

describe("a program that is bundled", () => {
  const program = join(folder, "program.js");
  writeFileSync(
    program,
    `import { dataset } from "sluice";
    console.log(await dataset.from([{ id: 1 }]).map(({ id }) => ({ id: id + 1 })).takeAll());`,
  );

  async function bundled(name: string, external: string[]): Promise<string> {
    const build = await rolldown({ input: program, platform: "node", external, onLog() {} });
    const file = join(folder, name, "bundle.js");
    await build.write({ file, format: "esm", codeSplitting: false });
    await build.close();
    return file;
  }

  it("runs where sluice is external", async () => {
    const { code, text } = await node(await bundled("outside", ["sluice"]));
    expect(code, text).toBe(0);
    expect(text).toContain("{ id: 2 }");
  });

  it("is told to keep it so where it is not", async () => {
    const { code, text } = await node(await bundled("inside", []));
    expect(code).toBe(1);
    expect(text).toContain("PACKAGE_BUNDLED");
    expect(text).toContain("--external:sluice");
  });
});
