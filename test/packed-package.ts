import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { installBeside } from "../scripts/installing.ts";
import { committedFiles } from "./meta/committed.ts";
import { root } from "./meta/source-tree.ts";

/** Files that do not reach the package, nor change what is built for it. */
const apart = /^(test|bench|\.ci|examples)\//;

/** The files of the package, and where it is once it has been installed. */
function packedPlace() {
  const files = committedFiles().filter((path) => !apart.test(path));
  const digest = createHash("sha256");
  for (const path of files) digest.update(`${path}\0`).update(readFileSync(join(root, path)));
  const folder = join(tmpdir(), "sluice-packed", digest.digest("hex").slice(0, 16));
  return { files, folder, installed: join(folder, "node_modules/sluice") };
}

/**
 * Packs this checkout as `npm pack` does and unpacks it as an installation does, outside of the
 * checkout: nothing but the package itself and its one dependency can be found from there. Made
 * anew only where a file of the package has changed.
 *
 * @returns the folder of the installed package.
 */
export function installPacked(): string {
  const { files, folder, installed } = packedPlace();
  if (existsSync(installed)) return installed;
  const draft = `${folder}.${process.pid}`;
  try {
    const checkout = join(draft, "checkout");
    copyFiles(files, checkout);
    const tarball = pack(checkout, draft);
    const target = join(draft, "installed/node_modules/sluice");
    mkdirSync(target, { recursive: true });
    execFileSync("tar", ["-xzf", tarball, "-C", target, "--strip-components=1"]);
    // The one dependency; a copy, for links are followed back into the checkout.
    cpSync(join(root, "node_modules/zod"), join(target, "../zod"), { recursive: true });
    // Several test runs may make it at once: each renames one that is whole.
    if (!existsSync(folder)) renameSync(join(draft, "installed"), folder);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  return installed;
}

/** Copies the checkout, whose own `dist` stays as it is. */
export function copyFiles(paths: readonly string[], target: string): void {
  for (const path of paths) {
    mkdirSync(dirname(join(target, path)), { recursive: true });
    cpSync(join(root, path), join(target, path));
  }
  symlinkSync(join(root, "node_modules"), join(target, "node_modules"));
}

function pack(checkout: string, target: string): string {
  const parameters = ["pack", "--json", "--silent", "--pack-destination", target];
  const listing = JSON.parse(execFileSync("npm", parameters, { cwd: checkout, encoding: "utf8" }));
  const [entry] = (Array.isArray(listing) ? listing : Object.values(listing)) as {
    filename: string;
  }[];
  return join(target, entry!.filename);
}

const installPackedBeside = installBeside(import.meta.filename);

/** For vitest: tests that start programs wait until this is done, by `test/sluice-program.ts`. */
export default function preparePacked() {
  if (process.env.TEST_SLUICE_SOURCES === "1") return undefined;
  const { installed } = packedPlace();
  process.env.TEST_SLUICE_PROGRAM = join(installed, "bin/sluice.cjs");
  process.env.TEST_SLUICE_MODULE = pathToFileURL(join(installed, "dist/index.js")).href;
  return existsSync(installed) ? undefined : installPackedBeside();
}

if (import.meta.main) installPacked();
