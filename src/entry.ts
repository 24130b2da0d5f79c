import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The programs of this package that run as processes, or as threads, of their own. */
export type EntryName =
  | "cli/main"
  | "engines/host/main"
  | "data/formats/decoding-thread/thread-main";

/**
 * Where a program of this package lies: beside this module and with its extension, which is `.ts`
 * in the sources (Node strips their types) and `.js` in `dist`, where the command line is `.cjs`:
 * see `cli/code-cache.ts`. The compiler leaves file names in `new URL("./x.ts", …)` as they are, so
 * this is the one place that names such files.
 *
 * @example
 * entryUrl("cli/main").pathname.endsWith("/cli/main.ts"); // true in the sources
 */
export function entryUrl(name: EntryName): URL {
  const isSource = import.meta.url.endsWith(".ts");
  const extension = isSource ? ".ts" : name === "cli/main" ? ".cjs" : ".js";
  return new URL(`./${name}${extension}`, import.meta.url);
}

/**
 * The place of a file of this package that is not a program, by its path from the root of the
 * package. The build keeps this module one folder below the root, where it is in the sources.
 */
export function packageFile(path: "." | "package.json" | "schema/job.json" | "python"): URL {
  return new URL(`../${path}`, import.meta.url);
}

/**
 * Whether the package lies around this module. It does not where a bundler has put this module into
 * a program: then there is nothing to start workers from.
 */
export function isPackageWhole(): boolean {
  const own: string | undefined = import.meta.url;
  return own !== undefined && existsSync(packageFile("schema/job.json"));
}

/** The command line that runs a program of this package with the Node at `nodePath`. */
export function entryCommand(name: EntryName, nodePath: string): readonly string[] {
  return [nodePath, fileURLToPath(entryUrl(name))];
}

/** Version of this package. */
export function softwareVersion(): string {
  const manifest = readFileSync(packageFile("package.json"), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}
