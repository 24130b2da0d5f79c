import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { jsonObjectIn } from "../../foundation/json.ts";
import { ifThere } from "../../foundation/system-errors.ts";
import { cacheError } from "../models/cache.ts";
import { type AssertHeld, withFileLock } from "../models/file-lock.ts";
import { folderBytes, watchGrowth } from "../models/folder-size.ts";
import type { ModelContext } from "../models/model-context.ts";
import {
  type EngineLock,
  type Hardware,
  hasPackage,
  lockFor,
  type NpmEngine,
  type NpmInstall,
  npmModule,
  openvinoLockFor,
  type PackagedEngine,
  type PackageMachine,
  type PipInstall,
  packagedEngine,
  packagedEngines,
  packageMachine,
  pinnedModule,
} from "./lock.ts";
import { foldersUpFrom, npmCi, npmSettings } from "./npm.ts";
import { findPython, pipInstall } from "./python.ts";

/** How the name of a folder begins in which an engine is being added. */
const addingPrefix = ".adding-";

/** What adding engine packages may use of the outside world. An `EngineContext` is one. */
export interface PackageContext extends ModelContext {
  /** Default: this machine. */
  machine?: PackageMachine;
  /** As in `EngineContext`, for an engine that fetches its model when it loads it. */
  hostCommand?: readonly string[];
}

/** An engine package on this machine. */
export interface LocatedEngine {
  /** Folder of the module. */
  directory: string;
  /** Absolute path of the file to import. */
  entry: string;
  version: string;
  /** The program of its Python, for a package of Python. */
  python?: string;
  /** `project`: the user's own node_modules; `home`: `SLUICE_HOME/engines`. */
  source: "project" | "home";
}

/** How an engine package is searched. */
export interface LocateOptions {
  /** Whether a missing package is added. */
  install: boolean;
  /** The native package; default: one for a GPU that is here, else the one for this machine. */
  hardware?: Hardware;
  /** Called with the bytes on disk while the package is being added. */
  onProgress?: (bytes: number) => void;
  /** Called before waiting for another process that adds the package. */
  onWait?: () => void;
}

/**
 * The package of an engine: from the user's own `node_modules`, searched from the working directory
 * up, if exactly the pinned version is there; else from `SLUICE_HOME/engines`, added if necessary.
 * Many processes may call it at once.
 *
 * @throws SluiceError `ENGINE_MISSING` (it is missing and `install` is false, or there is no
 *   package for this machine), `ENGINE_INSTALL_FAILED`, `USAGE` for an unknown name.
 * @example
 * const { entry } = await locateEnginePackage("llama", context, { install: true });
 * const module = await import(pathToFileURL(entry).href);
 */
export async function locateEnginePackage(
  name: string,
  context: PackageContext,
  options: LocateOptions,
): Promise<LocatedEngine> {
  const engine = packagedEngine(name);
  const own = engine === "openvino" ? undefined : await findInProject(engine, context);
  if (own) return own;
  const machine = machineFor(context, options.hardware);
  const lock =
    engine === "openvino"
      ? openvinoLockFor(machine, await findPython(context))
      : lockFor(engine, machine);
  const added = options.hardware === undefined ? await addedByName(engine, context) : undefined;
  const installed = added ?? (await findInHome(lock, context.homeDirectory));
  if (installed) return installed;
  if (!options.install) {
    throw new SluiceError("ENGINE_MISSING", `${lock.module} ${lock.version} for engine ${name}`, {
      hint: `run sluice engine add ${name}`,
    });
  }
  return addToHome(lock, context, options);
}

/** A package for a GPU that is here: somebody wants it used, Vulkan only ever by `--hardware`. */
async function addedByName(
  engine: PackagedEngine,
  context: PackageContext,
): Promise<LocatedEngine | undefined> {
  if (engine !== "llama") return undefined;
  for (const hardware of ["vulkan", "cuda"] as const) {
    const machine = machineFor(context, hardware);
    if (!hasPackage(machine)) continue;
    const found = await findInHome(lockFor(engine, machine), context.homeDirectory);
    if (found) return found;
  }
  return undefined;
}

/** Adds an engine's missing package, and says whether it was missing. */
export async function addEngine(
  name: string,
  context: PackageContext,
  options: Omit<LocateOptions, "install"> = {},
): Promise<{ located: LocatedEngine; added: boolean }> {
  let added = false;
  const onProgress = (bytes: number) => {
    added = true;
    options.onProgress?.(bytes);
  };
  const all = { ...options, onProgress, install: true };
  const located = await locateEnginePackage(name, context, all);
  return { located, added };
}

/**
 * Removes an engine's packages of all versions from `SLUICE_HOME`, also those that were not added
 * to the end; returns the freed bytes.
 */
export async function removeEngine(name: string, context: PackageContext): Promise<number> {
  const engine = packagedEngine(name);
  const root = enginesDirectory(context.homeDirectory);
  let bytes = 0;
  await inHome(root, async () => {
    for (const folder of await enginesIn(root, engine)) {
      await withFileLock(lockPath(root, folder), context, async () => {
        for (const path of [join(root, folder), temporaryOf(root, folder)]) {
          bytes += await folderBytes(path);
          await rm(path, { recursive: true, force: true });
        }
      });
    }
  });
  return bytes;
}

async function inHome<T>(root: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    throw cacheError(error, root);
  }
}

/** A line of `sluice engine list`. */
export interface EngineListing {
  engine: PackagedEngine;
  module: string;
  version: string;
  /** Its folder; undefined if it is missing. */
  located?: LocatedEngine;
  /** Bytes of the packages in `SLUICE_HOME`. */
  bytes: number;
  /** The reason if it cannot be added here. */
  refusal?: string;
}

/** All engines with packages, and those on this machine. */
export function listEngines(context: PackageContext): Promise<EngineListing[]> {
  const root = enginesDirectory(context.homeDirectory);
  return inHome(root, () => listAll(root, context));
}

async function listAll(root: string, context: PackageContext): Promise<EngineListing[]> {
  const listings: EngineListing[] = [];
  for (const engine of packagedEngines) {
    const { module, version } = pinnedModule(engine);
    let bytes = 0;
    for (const folder of await enginesIn(root, engine))
      bytes += await folderBytes(join(root, folder));
    const state = await locateState(engine, context);
    listings.push({ engine, module, version, bytes, ...state });
  }
  return listings;
}

async function locateState(
  engine: PackagedEngine,
  context: PackageContext,
): Promise<Pick<EngineListing, "located" | "refusal">> {
  try {
    return { located: await locateEnginePackage(engine, context, { install: false }) };
  } catch (error) {
    if (!(error instanceof SluiceError) || error.code !== "ENGINE_MISSING") throw error;
    const canBeAdded = error.hint.startsWith("run sluice");
    return canBeAdded ? {} : { refusal: `${error.message}; ${error.hint}` };
  }
}

function machineFor(context: PackageContext, hardware: Hardware | undefined): PackageMachine {
  const machine = context.machine ?? packageMachine();
  return hardware === undefined ? machine : { ...machine, hardware };
}

function enginesDirectory(homeDirectory: string): string {
  return join(homeDirectory, "engines");
}

function lockPath(root: string, folder: string): string {
  return join(root, `${folder}.lock`);
}

async function enginesIn(root: string, engine: PackagedEngine): Promise<string[]> {
  const entries = (await ifThere(readdir(root, { withFileTypes: true }))) ?? [];
  const folders = entries
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => (name.startsWith(addingPrefix) ? name.slice(addingPrefix.length) : name))
    .filter((name) => name.startsWith(`${engine}-`));
  return [...new Set(folders)].sort();
}

/** The folder in which an engine is added, until it is complete. */
function temporaryOf(root: string, folder: string): string {
  return join(root, `${addingPrefix}${folder}`);
}

async function findInProject(
  engine: NpmEngine,
  context: PackageContext,
): Promise<LocatedEngine | undefined> {
  const { module, version, entry } = npmModule(engine);
  for (const folder of foldersUpFrom(resolve(context.workingDirectory ?? "."))) {
    const directory = join(folder, "node_modules", module);
    const found = await moduleVersion(directory);
    if (found === undefined) continue;
    if (found === version) {
      return { directory, entry: join(folder, entry), version, source: "project" };
    }
    // Node would also import the nearest one, so a farther one is not searched.
    const facts = { found, pinned: version, directory };
    context.logger.log("info", `${module} of the project is another version, not used`, facts);
    return undefined;
  }
  return undefined;
}

async function moduleVersion(directory: string): Promise<string | undefined> {
  const text = await ifThere(readFile(join(directory, "package.json"), "utf8"));
  const found = text === undefined ? undefined : jsonObjectIn(text);
  return found?.version as string | undefined;
}

async function findInHome(
  lock: EngineLock,
  homeDirectory: string,
): Promise<LocatedEngine | undefined> {
  const folder = join(enginesDirectory(homeDirectory), lock.folder);
  return (await isComplete(lock, folder)) ? located(lock, folder) : undefined;
}

function located(lock: EngineLock, folder: string): LocatedEngine {
  const { version, install } = lock;
  const found = { entry: join(folder, lock.entry), version, source: "home" } as const;
  if (install.by === "pip") {
    return { ...found, directory: folder, python: install.python.executable };
  }
  return { ...found, directory: join(folder, "node_modules", lock.module) };
}

async function isComplete(lock: EngineLock, folder: string): Promise<boolean> {
  for (const name of [lock.entry, ...lock.parts]) {
    if ((await ifThere(stat(join(folder, name)))) === undefined) return false;
  }
  if (lock.install.by === "pip") return true;
  return (await moduleVersion(join(folder, "node_modules", lock.module))) === lock.version;
}

async function addToHome(
  lock: EngineLock,
  context: PackageContext,
  options: LocateOptions,
): Promise<LocatedEngine> {
  const root = enginesDirectory(context.homeDirectory);
  const waiting = { ...context, ...(options.onWait ? { onWait: options.onWait } : {}) };
  const addOnce = async (assertHeld: AssertHeld) => {
    // Another process may have added it during the wait.
    const installed = await findInHome(lock, context.homeDirectory);
    return installed ?? (await install(lock, root, context, assertHeld, options));
  };
  return inHome(root, () => withFileLock(lockPath(root, lock.folder), waiting, addOnce));
}

async function install(
  lock: EngineLock,
  root: string,
  context: PackageContext,
  assertHeld: AssertHeld,
  { onProgress = () => {} }: LocateOptions,
): Promise<LocatedEngine> {
  const folder = join(root, lock.folder);
  const temporary = temporaryOf(root, lock.folder);
  assertHeld();
  await rm(temporary, { recursive: true, force: true });
  await mkdir(temporary, { recursive: true });
  onProgress(0);
  const stopWatching = watchGrowth(context.clock, temporary, onProgress);
  try {
    const { install } = lock;
    if (install.by === "npm") await installByNpm(install, temporary, context, assertHeld);
    else await installByPip(install, temporary, context, assertHeld);
    if (!(await isComplete(lock, temporary))) {
      const detail = `${lock.install.by} left no ${lock.entry}`;
      throw new SluiceError("ENGINE_INSTALL_FAILED", detail);
    }
    // Another process that took the lock over has a folder of the same name, in the middle of work.
    assertHeld();
    await rm(folder, { recursive: true, force: true });
    await rename(temporary, folder);
  } catch (error) {
    assertHeld();
    await rm(temporary, { recursive: true, force: true });
    throw error;
  } finally {
    stopWatching();
  }
  return located(lock, folder);
}

async function installByNpm(
  install: NpmInstall,
  folder: string,
  context: PackageContext,
  assertHeld: AssertHeld,
): Promise<void> {
  await writeFile(join(folder, "package.json"), JSON.stringify(install.packageJson));
  await writeFile(join(folder, "package-lock.json"), JSON.stringify(install.packageLock));
  const settings = join(folder, ".npmrc");
  await writeFile(settings, npmSettings(context.environment), { mode: 0o600 });
  await npmCi(folder, context);
  assertHeld();
  await rm(settings, { force: true });
  await trim(install, folder);
}

async function installByPip(
  { requirements, python }: PipInstall,
  folder: string,
  context: PackageContext,
  assertHeld: AssertHeld,
): Promise<void> {
  const file = join(folder, "requirements.txt");
  await writeFile(file, `${requirements.join("\n")}\n`);
  // What a killed pip leaves goes with the folder.
  const temporary = join(folder, ".tmp");
  await mkdir(temporary);
  const environment = { ...context.environment, TMPDIR: temporary };
  await pipInstall(folder, file, python, { ...context, environment });
  assertHeld();
  await rm(temporary, { recursive: true, force: true });
}

/** Removes binaries of other machines, and writes stand-ins for omitted packages. */
async function trim({ binaries, standIns }: NpmInstall, folder: string): Promise<void> {
  for (const [path, text] of Object.entries(standIns)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  if (binaries === undefined) return;
  const root = join(folder, binaries.folder);
  for (const platform of await readdir(root)) {
    for (const architecture of await readdir(join(root, platform))) {
      if (`${platform}/${architecture}` === binaries.kept) continue;
      await rm(join(root, platform, architecture), { recursive: true, force: true });
    }
  }
}
