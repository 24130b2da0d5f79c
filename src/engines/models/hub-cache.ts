import { readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { sha256Hex } from "../../foundation/hashing.ts";
import { ifThere } from "../../foundation/system-errors.ts";
import { modelsDirectory } from "./cache.ts";
import { type FileLockContext, withFileLock } from "./file-lock.ts";
import { folderBytes } from "./folder-size.ts";

const markEnding = ".complete";

/** The places of one model of the hub. */
export interface HubCache {
  /** The folder of all models of the hub. */
  directory: string;
  /** The folder of this one; that of revision `main` has those of the others in it. */
  folder: string;
  /** The file that marks it as complete. */
  mark: string;
  /** Held while files of its repository are fetched or removed. */
  lock: string;
}

export function hubCache(
  homeDirectory: string,
  { repository, revision }: { repository: string; revision: string },
  variant: string,
): HubCache {
  const directory = directoryIn(homeDirectory);
  const folder = folderIn(directory, repository, revision);
  const key = sha256Hex(JSON.stringify([repository, revision, variant])).slice(0, 16);
  const mark = join(directory, `${key}${markEnding}`);
  return { directory, folder, mark, lock: lockIn(directory, repository) };
}

/** One for all revisions and variants: they share files, and are removed at once. */
function lockIn(directory: string, repository: string): string {
  return join(directory, `${sha256Hex(repository).slice(0, 16)}.lock`);
}

function directoryIn(homeDirectory: string): string {
  return join(modelsDirectory(homeDirectory), "onnx");
}

function folderIn(directory: string, repository: string, revision: string): string {
  return join(directory, repository, revision === "main" ? "" : revision);
}

/** Whether a model is here. Its folder may have been deleted by hand, without the mark. */
export async function isComplete({ folder, mark }: HubCache): Promise<boolean> {
  return (await isThere(mark)) && (await isThere(folder));
}

/**
 * Removes the marks of folders that were deleted by hand: a new fetch makes the folder again, even
 * if it fails, and whatever it fetches.
 */
export async function dropStaleMarks({ directory }: HubCache): Promise<void> {
  for (const { mark, repository, revision } of await marksIn(directory)) {
    const isHere = await isThere(folderIn(directory, repository, revision));
    if (!isHere) await rm(mark, { force: true });
  }
}

async function isThere(path: string): Promise<boolean> {
  return (await ifThere(stat(path))) !== undefined;
}

/** The content of a mark: the model's name in a job. */
export function markOf(name: string): string {
  return `${name}\n`;
}

/** The folder of a repository of the hub on this machine, with all its revisions. */
export interface HubFolder {
  /** As `owner/name`. */
  name: string;
  path: string;
  bytes: number;
}

/** The repositories of the hub with a complete model here, by name. */
export async function listHubFolders(homeDirectory: string): Promise<HubFolder[]> {
  const directory = directoryIn(homeDirectory);
  const found = new Map<string, HubFolder>();
  for (const { repository } of await marksIn(directory)) {
    const path = join(directory, repository);
    if (found.has(repository) || !(await isThere(path))) continue;
    found.set(repository, { name: repository, path, bytes: await folderBytes(path) });
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * Removes a repository of the hub with all its revisions, and the rest of an interrupted download.
 * One that is being fetched is removed after that.
 *
 * @param name as `owner/name` or `hf:owner/name`.
 * @returns the freed bytes; undefined if nothing of it is here.
 */
export async function removeHubFolder(
  homeDirectory: string,
  name: string,
  context: FileLockContext,
): Promise<number | undefined> {
  const repository = repositoryOf(name);
  const directory = directoryIn(homeDirectory);
  if (repository === undefined || !(await isThere(join(directory, repository)))) return undefined;
  return withFileLock(lockIn(directory, repository), context, async () => {
    for (const { mark, repository: marked } of await marksIn(directory)) {
      if (marked === repository) await rm(mark, { force: true });
    }
    const bytes = await folderBytes(join(directory, repository));
    await rm(join(directory, repository), { recursive: true, force: true });
    return bytes;
  });
}

/** The repository that a name without a file and a revision means. */
export function repositoryOf(name: string): string | undefined {
  return /^(?:hf:)?([\w-][\w.-]*\/[\w-][\w.-]*)$/.exec(name)?.[1];
}

/** What a mark says. */
interface Marked {
  mark: string;
  repository: string;
  revision: string;
}

async function marksIn(directory: string): Promise<Marked[]> {
  const files = (await ifThere(readdir(directory))) ?? [];
  const marks: Marked[] = [];
  for (const file of files.filter((each) => each.endsWith(markEnding))) {
    const mark = join(directory, file);
    const named = await ifThere(readFile(mark, "utf8"));
    // Another process may have removed it meanwhile.
    if (named === undefined) continue;
    const [repository = "", revision = "main"] = named.trim().replace(/^hf:/, "").split("@");
    marks.push({ mark, repository, revision });
  }
  return marks;
}
