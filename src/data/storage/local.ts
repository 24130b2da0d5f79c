import { readFile as readFileWithCallback, stat as statWithCallback } from "node:fs";
import { copyFile, link, open, readdir, rename, stat, unlink } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { SluiceError } from "../../foundation/errors.ts";
import { ifThere, systemCode } from "../../foundation/system-errors.ts";
import { LocalDirectories } from "./local-directories.ts";
import { isLinkUnsupported, storeError, withStoreErrors } from "./local-errors.ts";
import { LocalAppender, LocalReader, LocalWriter, writeFully } from "./local-files.ts";
import type { Appender, Leftover, RandomReader, Storage, StoredFile, Writer } from "./storage.ts";
import {
  maxNameLength,
  temporaryBeside,
  temporaryName,
  temporaryPrefix,
} from "./temporary-names.ts";

/** Files whose sizes are requested at once during a listing. */
const listBatch = 256;
/** Folders that are read ahead during a listing. */
const foldersAhead = 8;

interface LocalStorageOptions {
  /** Whether durable writes are forced to disk; default true. False only for benchmarks. */
  durable?: boolean;
}

/**
 * Storage in a directory of this machine. The first write makes the directory. `localStorage("/")`
 * opens any absolute path.
 *
 * @example
 * const storage = localStorage("out");
 * await storage.createIfAbsent("_sluice/plan.json", Buffer.from("{}")); // "created"
 */
export function localStorage(rootDirectory: string, options: LocalStorageOptions = {}): Storage {
  return new LocalStorage(resolve(rootDirectory), options.durable ?? true);
}

// Not those of node:fs/promises: for a small file they keep the thread busy twice as long, and a
// run may have 100,000.

/** The whole file. */
const readFile: (file: string) => Promise<Buffer> = promisify(readFileWithCallback);

/** Size and kind of a file; follows links. */
const statFile = promisify(statWithCallback);

class LocalStorage implements Storage {
  readonly location: string;
  readonly #durable: boolean;
  readonly #directories: LocalDirectories;

  constructor(root: string, durable: boolean) {
    this.location = root;
    this.#durable = durable;
    this.#directories = new LocalDirectories(durable);
  }

  async read(path: string): Promise<Uint8Array> {
    const file = this.#fileOf(path);
    return await withStoreErrors(file, () => readFile(file));
  }

  async open(path: string): Promise<RandomReader> {
    const file = this.#fileOf(path);
    return await withStoreErrors(file, async () => {
      const handle = await open(file, "r");
      try {
        const status = await handle.stat();
        if (status.isDirectory()) throw new SluiceError("STORE_FAILED", "is a directory", { file });
        return new LocalReader(handle, file, status.size);
      } catch (error) {
        await handle.close();
        throw error;
      }
    });
  }

  async stat(path: string): Promise<StoredFile | undefined> {
    const file = this.#fileOf(path);
    const bytes = await withStoreErrors(file, () => sizeOf(file));
    return bytes === undefined ? undefined : { path, bytes };
  }

  async *list(prefix: string): AsyncIterable<StoredFile> {
    const slash = prefix.lastIndexOf("/");
    yield* this.#listDirectory(prefix.slice(0, slash + 1), prefix.slice(slash + 1));
  }

  async createIfAbsent(
    path: string,
    data: Uint8Array,
    { isLasting = true }: { isLasting?: boolean } = {},
  ): Promise<"created" | "exists" | "unclear"> {
    const file = this.#fileOf(path);
    const isSynced = this.#durable && isLasting;
    const temporary = await this.#writeTemporary(file, data, isSynced);
    try {
      return await this.#linkIfAbsent(temporary, file, isSynced);
    } finally {
      // The temporary name is useless now, so a failure to remove it does no harm.
      await unlink(temporary).catch(() => {});
    }
  }

  async replace(path: string, data: Uint8Array): Promise<void> {
    const file = this.#fileOf(path);
    const temporary = await this.#writeTemporary(file, data, this.#durable);
    await withStoreErrors(file, () => this.#rename(temporary, file));
  }

  async appender(path: string): Promise<Appender> {
    const file = this.#fileOf(path);
    const handle = await this.#create(file, () => open(file, "a"));
    let isNameSynced = !this.#durable;
    return new LocalAppender(handle, file, async (open) => {
      if (this.#durable) await open.datasync();
      if (!isNameSynced) await this.#directories.sync(dirname(file));
      isNameSynced = true;
    });
  }

  async writer(path: string): Promise<Writer> {
    const file = this.#fileOf(path);
    const temporary = temporaryBeside(file);
    const handle = await this.#create(file, () => open(temporary, "wx"));
    return new LocalWriter(handle, file, {
      appear: async (open) => {
        if (this.#durable) await open.sync();
        await open.close();
        await this.#rename(temporary, file);
      },
      vanish: () => unlink(temporary),
    });
  }

  async publish(from: string, to: string): Promise<void> {
    const source = this.#fileOf(from);
    const target = this.#fileOf(to);
    const temporary = temporaryBeside(target);
    await withStoreErrors(source, async () => {
      const [wanted, standing] = await Promise.all([identityOf(source), identityOf(target)]);
      if (wanted === undefined) throw new SluiceError("NOT_FOUND", "", { file: source });
      // Already published, perhaps by a process that died before the name was on disk.
      if (wanted === standing) return await this.#directories.sync(dirname(target));
      // At once, so that a kill leaves no temporary name beside the results of others.
      const isNew = standing === undefined;
      if (isNew && (await this.#create(target, () => linkedNew(source, target)))) {
        return await this.#directories.sync(dirname(target));
      }
      await this.#create(target, () => this.#linkOrCopy(source, temporary));
      await this.#rename(temporary, target);
    });
  }

  async remove(path: string): Promise<void> {
    const file = this.#fileOf(path);
    await withStoreErrors(file, () => ifThere(unlink(file)));
  }

  async *leftovers(prefix: string): AsyncIterable<Leftover> {
    const directory = this.location;
    yield* await withStoreErrors(directory, () => leftoversIn(directory, prefix));
  }

  async *leftoversOf(paths: readonly string[]): AsyncIterable<Leftover> {
    const directory = this.location;
    for (const [folder, some] of Map.groupBy(paths, (path) => dirname(path))) {
      yield* await withStoreErrors(this.#fileOf(folder), () =>
        leftoversOfObjects(directory, folder, some),
      );
    }
  }

  #fileOf(path: string): string {
    return join(this.location, path);
  }

  /** Runs `action`, which creates `file`, after making its directory. */
  async #create<T>(file: string, action: () => Promise<T>): Promise<T> {
    const directory = dirname(file);
    return await withStoreErrors(file, async () => {
      await this.#directories.make(directory);
      try {
        return await action();
      } catch (error) {
        if (systemCode(error) !== "ENOENT") throw error;
        this.#directories.forget(directory);
        await this.#directories.make(directory);
        return await action();
      }
    });
  }

  async #writeTemporary(file: string, data: Uint8Array, isSynced: boolean): Promise<string> {
    const temporary = temporaryBeside(file);
    const handle = await this.#create(file, () => open(temporary, "wx"));
    try {
      await writeFully(handle, data);
      if (isSynced) await handle.sync();
      await handle.close();
    } catch (error) {
      await handle.close().catch(() => {});
      await unlink(temporary).catch(() => {});
      throw storeError(error, file);
    }
    return temporary;
  }

  async #linkIfAbsent(
    temporary: string,
    file: string,
    isSynced: boolean,
  ): Promise<"created" | "exists" | "unclear"> {
    try {
      await link(temporary, file);
      if (isSynced) await this.#directories.sync(dirname(file));
      return "created";
    } catch (error) {
      const code = systemCode(error);
      if (code === "EEXIST") return "exists";
      if (code === "ENOSPC" || code === "EDQUOT") throw storeError(error, file);
      if (!isLinkUnsupported(error)) return "unclear";
      throw new SluiceError("STORE_UNSUITABLE", `link gives ${code}`, { file, cause: error });
    }
  }

  async #rename(temporary: string, file: string): Promise<void> {
    try {
      await rename(temporary, file);
    } finally {
      // rename() keeps both names if they are names of one file.
      await unlink(temporary).catch(() => {});
    }
    await this.#directories.sync(dirname(file));
  }

  async #linkOrCopy(source: string, temporary: string): Promise<void> {
    try {
      await link(source, temporary);
    } catch (error) {
      if (!isLinkUnsupported(error)) throw error;
      await copyFile(source, temporary);
      if (this.#durable) await syncFile(temporary);
    }
  }

  async *#listDirectory(folder: string, namePrefix: string): AsyncGenerator<StoredFile> {
    const entries = await this.#entriesOf(folder, namePrefix);
    for (let start = 0; start < entries.length; start += listBatch) {
      const batch = entries.slice(start, start + listBatch);
      const sizes = await Promise.all(
        batch.map((entry) => (entry.endsWith("/") ? undefined : this.stat(folder + entry))),
      );
      const inner = this.#listAhead(
        batch.filter((it) => it.endsWith("/")).map((it) => folder + it),
      );
      try {
        for (const [index, entry] of batch.entries()) {
          if (entry.endsWith("/")) yield* (await inner.next()).value!;
          else if (sizes[index]) yield sizes[index];
        }
      } finally {
        await inner.return(undefined);
      }
    }
  }

  /** The files of each folder, with some folders read ahead: each small folder costs a wait. */
  async *#listAhead(folders: readonly string[]): AsyncGenerator<AsyncIterable<StoredFile>> {
    const begun: BegunList[] = [];
    let next = 0;
    const begin = () => {
      if (next >= folders.length) return;
      const files = this.#listDirectory(folders[next++]!, "");
      const first = files.next();
      // A failure is reported in its turn.
      first.catch(() => {});
      begun.push({ files, first });
    };
    for (let count = 0; count < foldersAhead; count++) begin();
    try {
      for (let list = begun.shift(); list; list = begun.shift()) {
        begin();
        yield goOn(list);
      }
    } finally {
      for (const { files } of begun) await files.return(undefined).catch(() => {});
    }
  }

  /** Names in a folder, folders with a slash at the end, in the order of the full paths. */
  async #entriesOf(folder: string, namePrefix: string): Promise<string[]> {
    const directory = this.#fileOf(folder);
    const entries = await withStoreErrors(directory, () =>
      ifThere(readdir(directory, { withFileTypes: true })),
    );
    return (entries ?? [])
      .filter(({ name }) => name.startsWith(namePrefix) && !name.startsWith(temporaryPrefix))
      .map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name))
      .sort();
  }
}

/** Gives a file one more name; false if something has that name, or names cannot be linked. */
async function linkedNew(source: string, target: string): Promise<boolean> {
  try {
    await link(source, target);
    return true;
  } catch (error) {
    if (systemCode(error) === "EEXIST" || isLinkUnsupported(error)) return false;
    throw error;
  }
}

/** The temporary files of objects whose path below `root` begins with `prefix`. */
async function leftoversIn(root: string, prefix: string): Promise<Leftover[]> {
  const slash = prefix.lastIndexOf("/");
  const found = await pathsIn(root, prefix.slice(0, slash + 1), prefix.slice(slash + 1));
  return await leftoversAt(root, found);
}

/** The temporary files of some objects of a folder. */
async function leftoversOfObjects(
  root: string,
  folder: string,
  paths: readonly string[],
): Promise<Leftover[]> {
  const names = new Set(paths.map((path) => basename(path).slice(0, maxNameLength)));
  const entries = (await ifThere(readdir(join(root, folder)))) ?? [];
  const own = entries.filter((it) => names.has(temporaryName.exec(it)?.groups?.object ?? ""));
  const found = own.map((name) => join(folder, name));
  return await leftoversAt(root, found);
}

async function leftoversAt(root: string, paths: readonly string[]): Promise<Leftover[]> {
  if (paths.length === 0) return [];
  // Beside one of them: this process may not be allowed to write into the root.
  const nowMs = await clockOf(join(root, dirname(paths[0]!)));
  const leftovers = await Promise.all(paths.map((path) => leftover(root, path, nowMs)));
  return leftovers.filter((it) => it !== undefined);
}

async function pathsIn(root: string, folder: string, namePrefix: string): Promise<string[]> {
  const entries = await ifThere(readdir(join(root, folder), { withFileTypes: true }));
  const paths: string[] = [];
  for (const entry of entries ?? []) {
    const { name } = entry;
    const object = temporaryName.exec(name)?.groups?.object;
    if (object?.startsWith(namePrefix.slice(0, maxNameLength))) paths.push(folder + name);
    else if (entry.isDirectory() && name.startsWith(namePrefix)) {
      paths.push(...(await pathsIn(root, `${folder}${name}/`, "")));
    }
  }
  return paths;
}

// A shared directory may use another machine's clock, so only its own times are compared.
async function clockOf(folder: string): Promise<number> {
  const file = temporaryBeside(join(folder, "clock"));
  const handle = await open(file, "wx");
  try {
    return (await handle.stat()).ctimeMs;
  } finally {
    await handle.close();
    await unlink(file);
  }
}

async function leftover(root: string, path: string, nowMs: number): Promise<Leftover | undefined> {
  // Absent if its writer finished meanwhile.
  const status = await ifThere(stat(join(root, path)));
  // Publishing a file changes its ctime, but the content may be older.
  return status && { path, bytes: status.size, idleMs: nowMs - status.ctimeMs };
}

async function sizeOf(file: string): Promise<number | undefined> {
  const status = await ifThere(statFile(file));
  return status?.isDirectory() ? undefined : status?.size;
}

/** Equal for two names of one file; undefined if the file does not exist. */
async function identityOf(file: string): Promise<string | undefined> {
  const status = await ifThere(stat(file, { bigint: true }));
  return status && !status.isDirectory() ? `${status.dev}-${status.ino}` : undefined;
}

async function syncFile(file: string): Promise<void> {
  const handle = await open(file, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A listing whose first file was already requested. */
interface BegunList {
  files: AsyncGenerator<StoredFile>;
  first: Promise<IteratorResult<StoredFile>>;
}

async function* goOn({ files, first }: BegunList): AsyncGenerator<StoredFile> {
  const { done, value } = await first;
  if (done) return;
  yield value;
  yield* files;
}
