import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { type Plugin, rolldown } from "rolldown";

/** Makes the JavaScript of `dist/`: few files, with the packages that src imports inside them. */

/**
 * Files that users import, that other processes and threads start by path, or whose place in
 * `dist/` counts: `entry.ts` finds the package's files from where it lies itself. What a host runs
 * are modules of users: they and the host share the modules that users import.
 */
export const libraries = [
  "index",
  "entry",
  "testing/index",
  "testing/fake-server-main",
  "engines/host/main",
  "data/formats/decoding-thread/thread-main",
] as const;

/** The command line, which coordinators and workers run. */
export const program = "cli/main";

const entryPoints = [...libraries, program];

const noticesFile = "THIRD-PARTY-NOTICES.txt";

/**
 * Bundles `src/` into `dist/`: what users import as modules, and the program as CommonJS, whose
 * compiled code can be kept with all functions that ran (`cli/code-cache.ts`).
 *
 * @throws Error where a module cannot be found, and at any other warning.
 */
export async function bundle(root: string): Promise<void> {
  const modules = [
    ...(await bundleForm(root, "esm", libraries)),
    ...(await bundleForm(root, "cjs", ["entry", "cli/code-cache", program])),
  ];
  writeFileSync(join(root, "dist", noticesFile), notices(modules));
}

/**
 * What two programs share, and what is loaded when it is needed only, becomes a chunk at the top of
 * `dist/`. Names stay as they are, so that stacks can be read.
 *
 * @returns the files that lie in the bundle.
 */
async function bundleForm(
  root: string,
  format: "esm" | "cjs",
  names: readonly string[],
): Promise<string[]> {
  const source = join(root, "src");
  const { readTogether, chunkOf } = startChunks(source);
  const build = await rolldown({
    input: Object.fromEntries(names.map((name) => [name, join(source, `${name}.ts`)])),
    platform: "node",
    plugins: [
      lightUndici(source),
      shakenOpenTelemetry(),
      readTogether,
      ...(format === "esm" ? [plainBuiltins()] : []),
    ],
    // Some modules are loaded late by one importer and at once by another.
    checks: { ineffectiveDynamicImport: false },
    onLog(level, { message }) {
      if (level === "warn") throw new Error(message);
    },
  });
  try {
    const extension = format === "esm" ? "js" : "cjs";
    const { output } = await build.write({
      dir: join(root, "dist"),
      format,
      entryFileNames: `[name].${extension}`,
      chunkFileNames: `[name]-[hash].${extension}`,
      banner: format === "esm" ? "" : ({ name }) => commonJsHead(name),
      // With one character beyond Latin-1, a file has two bytes a character in V8: slower to read.
      charset: "ascii",
      comments: { jsdoc: false },
      codeSplitting: { groups: startGroups(chunkOf) },
    });
    return output.flatMap((file) => (file.type === "chunk" ? file.moduleIds : []));
  } finally {
    await build.close();
  }
}

/** Modules are strict by themselves; CommonJS says so. */
function commonJsHead(name: string): string {
  if (name !== program) return '"use strict";';
  return '"use strict";\nrequire = require("./code-cache.cjs").requireKeepingCode(__filename);';
}

/** What engine hosts import of which a run may start many. */
const hostRoots = [
  "engines/host/main",
  "engines/pipeline/hosted-stages",
  "engines/predictor/hosted-predictor",
];

/** What `sluice run` and its workers import, at once and later, whatever the job. */
const runRoots = [
  "api/run-dependencies",
  "api/start-run",
  "backends/local/device-pool",
  "backends/local/local",
  "cli/commands/run",
  "cli/commands/worker",
  "cli/spool",
  "engines/prepare-engine",
  "run/job/load",
  "run/run-job",
  "run/worker/run-worker",
];

/** What of it a worker imports. It gets a job that was checked: it needs no schema of jobs. */
const workerRoots = ["cli/commands/worker", "run/worker/run-worker"];

/**
 * A file costs a start 0.4 ms and more, and a run starts at least two processes, which read some
 * 120 of them if each shared part has its own. So what they read lies in few chunks: `base`, which
 * engine hosts read too, `command`, which every command reads, `ahead`, with which `sluice run`
 * starts its first worker, `start`, which both read then at once, and `coordinator`, which the
 * coordinator reads besides.
 */
function startChunks(source: string) {
  const chunks = new Map<string, string>();
  const readTogether: Plugin = {
    name: "start-chunks",
    buildEnd() {
      const closure = (roots: readonly string[]) => {
        const found = new Set<string>();
        const add = (id: string) => {
          const module = found.has(id) ? null : this.getModuleInfo(id);
          if (!module) return;
          found.add(id);
          for (const next of module.importedIds) add(next);
        };
        for (const root of roots) {
          const id = join(source, `${root}.ts`);
          if (!existsSync(id)) this.error(`there is no ${id} for the chunks of a start`);
          add(id);
        }
        return found;
      };
      const run = closure(runRoots);
      for (const id of run) chunks.set(id, "coordinator");
      for (const id of closure(workerRoots)) {
        if (id.includes("/node_modules/zod/")) this.error("workers would load zod, for 20 ms each");
        chunks.set(id, "start");
      }
      for (const id of closure(["cli/commands/run"])) chunks.set(id, "ahead");
      for (const id of closure(["cli/main"])) chunks.set(id, "command");
      for (const id of closure(hostRoots)) if (run.has(id)) chunks.set(id, "base");
      // Entry points, of which no other chunk imports anything.
      for (const name of entryPoints) chunks.delete(join(source, `${name}.ts`));
    },
  };
  return { readTogether, chunkOf: (id: string) => chunks.get(id) ?? null };
}

/** Chunks in the order in which they are filled: what one needs lies in it, or in one before it. */
const startChunkNames = ["base", "command", "ahead", "start", "coordinator"];

function startGroups(chunkOf: (id: string) => string | null) {
  return startChunkNames.map((name, at) => ({
    name: (id: string) => (chunkOf(id) === name ? name : null),
    debugName: name,
    priority: startChunkNames.length - at,
  }));
}

/**
 * The engine `openai` and tunnels need two classes of undici and one method. The whole of it, and
 * Node's `http` and `http2` (`http` brings another undici, Node's own), take 60 ms of each start.
 * Undici's client reads only the header limit, the class of a request's body if that is a stream,
 * which ours never is, and the constants of HTTP/2, which is off.
 */
function lightUndici(source: string): Plugin {
  const prefix = "\0light:";
  const modules: Record<string, string> = {
    undici: [
      'export { default as Pool } from "undici/lib/dispatcher/pool.js";',
      'export { default as ProxyAgent } from "undici/lib/dispatcher/proxy-agent.js";',
      // As undici's index does for all methods: a proxy agent asks for its tunnels by this one.
      'import Dispatcher from "undici/lib/dispatcher/dispatcher.js";',
      'import connect from "undici/lib/api/api-connect.js";',
      "Dispatcher.prototype.connect = connect;",
    ].join("\n"),
    "node:http": "export const maxHeaderSize = 16384; export class IncomingMessage {}",
    "node:http2": "export const constants = {};",
  };
  const users = ["engines/openai/transport.ts", "foundation/proxy-tunnel.ts"].map((path) =>
    join(source, path),
  );
  return {
    name: "light-undici",
    resolveId(id, importer = "") {
      if (importer.startsWith(prefix)) return this.resolve(id, users[0]);
      const isReplaced =
        id === "undici" ? users.includes(importer) : importer.includes("/node_modules/undici/lib/");
      return isReplaced && id in modules ? prefix + id : null;
    },
    load: (id) => (id.startsWith(prefix) ? modules[id.slice(prefix.length)] : null),
  };
}

/**
 * OpenTelemetry's packages name modules of CommonJS first, and a bundler can leave out nothing of
 * those: five times as much, with metrics, logs and detectors of machines.
 */
function shakenOpenTelemetry(): Plugin {
  return {
    name: "shaken-opentelemetry",
    async resolveId(id, importer, options) {
      const [, name] = /^(@opentelemetry\/[^/]+)$/.exec(id) ?? [];
      if (name === undefined || name === "@opentelemetry/api") return null;
      const found = await this.resolve(id, importer, { ...options, skipSelf: true });
      if (!found?.id.includes("/build/src/")) return found;
      return found.id.replace("/build/src/", "/build/esm/");
    },
  };
}

/**
 * An `import` of a module of Node reads each of its properties, among them those that load another
 * part of Node when they are read: 4 ms of each process. This takes only those that are used.
 */
function plainBuiltins(): Plugin {
  const imports =
    /^import (?:(?:\* as )?(?<whole>[\w$]+)(?:, )?)?(?<named>\{[^}]*\})? from "(?<module>node:[^"]+)";$/gm;
  return {
    name: "plain-builtins",
    renderChunk: (code) =>
      code.replace(imports, (...match) => {
        const { whole, named, module } = match.at(-1) as Record<string, string | undefined>;
        const taken = [whole, named?.replaceAll(" as ", ": ")].filter((each) => each !== undefined);
        const from = `globalThis.process.getBuiltinModule("${module}")`;
        return `const ${taken.map((each) => `${each} = ${from}`).join(", ")};`;
      }),
  };
}

/** The licences of the packages that lie in the bundle, as they ask for it. */
function notices(modules: readonly string[]): string {
  const folders = modules.flatMap((id) => {
    const match = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id);
    return match ? [match[1]!] : [];
  });
  const sections = [...new Set(folders)].sort().map(noticeOf);
  if (sections.length === 0) throw new Error("no package lies in the bundle");
  return `The files in this folder contain these packages.\n\n${sections.join("\n")}`;
}

function noticeOf(folder: string): string {
  const { name, version, license } = manifestOf(folder);
  const text = textOf(folder) ?? siblingText(folder, license) ?? readmeText(folder);
  if (text === undefined) throw new Error(`${folder} has no licence`);
  const rule = "-".repeat(80);
  return `${rule}\n${name} ${version} (${license})\n${rule}\n\n${text}\n`;
}

/** Some packages of one scope leave the licence that they name to the others. */
function siblingText(folder: string, license: string | undefined): string | undefined {
  const scope = dirname(folder);
  if (!basename(scope).startsWith("@")) return undefined;
  const siblings = readdirSync(scope).map((name) => join(scope, name));
  const texts = siblings.map((it) => (manifestOf(it).license === license ? textOf(it) : undefined));
  return texts.find((text) => text !== undefined);
}

/** Some packages name their licence at the end of their readme only. */
function readmeText(folder: string): string | undefined {
  const readme = readdirSync(folder).find((name) => /^readme(\.md)?$/i.test(name));
  if (readme === undefined) return undefined;
  const [, section] = readFileSync(join(folder, readme), "utf8").split(/^#+ Licen[cs]e$/im);
  return section?.trim();
}

function manifestOf(folder: string): Record<string, string> {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Record<string, string>;
}

function textOf(folder: string): string | undefined {
  const licence = readdirSync(folder).find((name) => /^licen[cs]e(\.\w+)?$/i.test(name));
  if (licence === undefined) return undefined;
  const notice = ["NOTICE", "NOTICE.txt"].find((name) => existsSync(join(folder, name)));
  const files = notice === undefined ? [licence] : [licence, notice];
  return files.map((name) => readFileSync(join(folder, name), "utf8").trim()).join("\n\n");
}
