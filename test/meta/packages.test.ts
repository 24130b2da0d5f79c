import { existsSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type LockedPackages, missingPackages, platformOf } from "../../scripts/check-lock.ts";
import { packageOf, parseSource, root, type SourceFile, sourceFiles } from "./source-tree.ts";

/** Which files of src may import which package. A package that is not here is not allowed. */
const users: Record<string, RegExp> = {
  "@huggingface/jinja": /^src\/(prompt|engines)\//,
  "@aws-sdk/client-s3": /^src\/data\/s3\//,
  "@opentelemetry/api": /^src\/telemetry\//,
  "@opentelemetry/core": /^src\/telemetry\//,
  "@opentelemetry/otlp-exporter-base": /^src\/telemetry\//,
  "@opentelemetry/otlp-transformer": /^src\/telemetry\//,
  "@opentelemetry/resources": /^src\/telemetry\//,
  "@opentelemetry/sdk-trace-base": /^src\/telemetry\//,
  "@uwdata/flechette": /^src\/data\/formats\/arrow\/library/,
  "@fastify/multipart": /^src\/serve\//,
  commander: /^src\/cli\//,
  fastify: /^src\/serve\//,
  fflate: /^src\/(backends\/ray|serve\/torchserve)\//,
  hyparquet: /^src\/data\/formats\/parquet\//,
  "hyparquet-compressors": /^src\/data\/formats\/parquet\//,
  "hyparquet-writer": /^src\/data\/formats\/parquet\//,
  hysnappy: /^src\/data\/formats\/parquet\//,
  papaparse: /^src\/(data\/formats\/csv|backends\/sky\/)/,
  picomatch: /^src\/data\//,
  "prom-client": /^src\/serve\//,
  undici: /^src\/(foundation\/(remote|proxy|interim)-|engines\/(openai|models)\/|data\/sources)/,
  yaml: /^src\/(run\/job|cli|backends\/joining)\//,
  yauzl: /^src\/(engines\/models|serve\/torchserve)\//,
  zod: /(^src\/(foundation\/setting|dataset\/\w+)|options|schema|records?|plan|\/job\/[^/]+)\.ts$/,
};

/** Packages that are fetched when they are needed and must never be imported by name. */
const onDemand = ["node-llama-cpp", "@huggingface/transformers"];

/** Packages that our types name to a user's compiler; the code of the others is in the bundle. */
const namedByTypes = ["zod"];

interface Manifest {
  engines: { node: string };
  bin: Record<string, string>;
  exports: Record<string, string | { types: string; default: string }>;
  files: string[];
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  peerDependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

const readJson = (path: string): unknown => JSON.parse(readFileSync(join(root, path), "utf8"));
const manifest = readJson("package.json") as Manifest;

/** The packages that a file imports, with their lines. */
function packagesOf({ imports }: SourceFile): { name: string; line: number }[] {
  return imports.flatMap(({ specifier, line }) => {
    const name = specifier === undefined ? undefined : packageOf(specifier);
    return name === undefined ? [] : [{ name, line }];
  });
}

function misplaced(file: SourceFile): string[] {
  return packagesOf(file)
    .filter(({ name }) => !users[name]?.test(file.path))
    .map(({ name, line }) => `${file.path}:${line} imports ${name}`);
}

describe("packages", () => {
  const files = sourceFiles("src");
  const imported = new Set(files.flatMap(packagesOf).map(({ name }) => name));

  it("sees the tree", () => {
    expect(files.length).toBeGreaterThanOrEqual(40);
    expect(imported.size).toBeGreaterThanOrEqual(4);
  });

  it("are imported only where the table allows it", () => {
    expect(files.flatMap(misplaced)).toEqual([]);
  });

  it("that are fetched on demand are imported nowhere", () => {
    const all = sourceFiles("src", "test", "bench", "scripts", "examples").flatMap(packagesOf);
    expect(all.filter(({ name }) => onDemand.includes(name))).toEqual([]);
  });

  it("builtins carry the node: prefix", () => {
    const bare = [...imported].filter((name) => builtinModules.includes(name));
    expect(bare).toEqual([]);
  });

  it("that src imports are there to be bundled, and installed where the types name them", () => {
    const present = { ...manifest.dependencies, ...manifest.devDependencies };
    expect([...imported].filter((name) => !(name in present))).toEqual([]);
    expect(namedByTypes.filter((name) => !imported.has(name))).toEqual([]);
    expect(Object.keys(manifest.dependencies)).toEqual(namedByTypes);
    expect(manifest.optionalDependencies ?? {}).toEqual({});
  });

  it("that only tests and tools import are dev dependencies", () => {
    const known = new Set([
      "sluice",
      ...Object.keys(manifest.dependencies),
      ...Object.keys(manifest.devDependencies),
    ]);
    const foreign = sourceFiles("test", "bench", "scripts", "examples")
      .flatMap((file) => packagesOf(file).map(({ name }) => `${file.path} imports ${name}`))
      .filter((text) => !known.has(text.split(" imports ")[1]!));
    expect(foreign).toEqual([]);
  });

  it("have exact versions", () => {
    const versions = { ...manifest.dependencies, ...manifest.devDependencies };
    expect(Object.keys(versions).length).toBeGreaterThanOrEqual(8);
    const loose = Object.entries(versions).filter(
      ([, version]) => !/^\d+\.\d+\.\d+$/.test(version),
    );
    expect(loose).toEqual([]);
  });

  it("are locked whole, by checksum and by no address", () => {
    const { packages } = readJson("package-lock.json") as { packages: LockedPackages };
    const locked = Object.entries(packages).filter(([path]) => path !== "");
    expect(locked.length).toBeGreaterThanOrEqual(20);
    expect(Object.keys(missingPackages(packages)), "node scripts/check-lock.ts --write").toEqual(
      [],
    );
    expect(locked.filter(([, { resolved }]) => resolved).map(([path]) => path)).toEqual([]);
    // A registry that lacks a package of another platform cannot tell its checksum.
    const unchecked = locked.filter(
      ([path, { integrity, optional }]) => !integrity && !(optional && platformOf(path)),
    );
    expect(unchecked.map(([path]) => path)).toEqual([]);
  });

  it("of other platforms are named by what they run on", () => {
    expect(platformOf("@oxc-parser/binding-linux-arm-musleabihf")).toEqual({
      cpu: ["arm"],
      libc: ["musl"],
      os: ["linux"],
    });
    expect(platformOf("@biomejs/cli-darwin-arm64")).toEqual({ cpu: ["arm64"], os: ["darwin"] });
    const locked = {
      "node_modules/a": { version: "1", optionalDependencies: { "b-aix-x64": "2" } },
    };
    expect(Object.keys(missingPackages(locked))).toEqual(["node_modules/b-aix-x64"]);
  });

  it("catches a package out of its place", () => {
    const text = 'import { request } from "undici";\nconst x = import("lodash/fp");\n';
    expect(misplaced(parseSource("src/run/planted.ts", text))).toHaveLength(2);
  });
});

describe("package.json", () => {
  it("names files that exist", () => {
    const paths = [...Object.values(manifest.bin), ...manifest.files].filter(
      (path) => path !== "dist" && !path.startsWith("!"),
    );
    expect(paths.length).toBeGreaterThanOrEqual(4);
    expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  it("exports what the build makes from a source, or what is there", () => {
    const targets = Object.values(manifest.exports).flatMap((target) =>
      typeof target === "string" ? [target] : [target.types, target.default],
    );
    expect(targets.length).toBeGreaterThanOrEqual(4);
    const sourceOf = (target: string) =>
      target.replace(/^\.\/dist\/(.*?)(\.d\.ts|\.js)$/, "./src/$1.ts");
    expect(targets.filter((target) => !existsSync(join(root, sourceOf(target))))).toEqual([]);
  });

  it("asks for the Node that the bin asks for", () => {
    const minimum = /(\d+\.\d+)/.exec(manifest.engines.node)?.[1];
    const bin = readFileSync(join(root, manifest.bin.sluice!), "utf8");
    expect(bin).toContain(minimum);
  });
});
