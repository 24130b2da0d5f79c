import { chmod, mkdir, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { join, relative } from "node:path";
import { isObjectScheme, parseObjectLocation } from "../../data/s3/settings.ts";
import { copyBytes } from "../../data/sources/local-copy.ts";
import type { InputStores } from "../../data/sources/open.ts";
import type { SourceFile } from "../../data/sources/source-store.ts";
import { schemeOf } from "../../data/storage/open.ts";
import { isTemporary } from "../../data/storage/temporary-names.ts";
import { withFileLock } from "../../engines/models/file-lock.ts";
import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { sortableId } from "../../foundation/ids.ts";
import type { Random } from "../../foundation/random.ts";

const fetchesAtOnce = 8;

/** Copies that nobody has used for this long are removed. */
const maxIdleMs = 24 * 3_600_000;

/** When copies seem to be written last: any other time shows that one was changed. */
const copyTime = new Date("2000-01-01");

/** What results are stored under until it is decided that they count. */
export const stagingFolder = ".sluice/";

/**
 * The name of an object below a place.
 *
 * @returns undefined for the empty objects that stores keep for folders, and for what is being
 *   stored.
 * @throws SluiceError `MOUNT_FAILED` for a name such as `a//b` or `../a`.
 */
export function objectName(place: string, path: string): string | undefined {
  const name = isObjectScheme(schemeOf(place)) ? keyBelow(place, path) : relative(place, path);
  const isStored = !name.startsWith(stagingFolder) && !isTemporary(path);
  if (!isStored || path.endsWith("/")) return undefined;
  if (!/(^|\/)\.{0,2}(\/|$)|\0/.test(name)) return name;
  const detail = "its name cannot be the name of a file";
  throw new SluiceError("MOUNT_FAILED", detail, { file: path });
}

/** Keys have no form: `a/b` and `a//b` are two. */
function keyBelow(place: string, path: string): string {
  const { scheme, bucket, key } = parseObjectLocation(place);
  return path.slice(`${scheme}://${bucket}/${key}`.replace(/\/*$/, "/").length);
}

export interface CachedObject {
  /** Below the mount, with `/` between folders. */
  name: string;
  bytes: number;
  /** The copy; one that a program changes is fetched again. */
  file: string;
}

export interface ObjectCacheContext {
  inputs: InputStores;
  clock: Clock;
  random: Random;
  /** Folder of the copies of all mounts of this machine. */
  folder: string;
}

/**
 * Copies of a mount's objects on this machine, for all of its workers and fleets: each content is
 * fetched once, under a lock, and recognized by what its store says of it.
 */
export class ObjectCache {
  readonly #context: ObjectCacheContext;
  readonly #location: string;
  readonly #folder: string;

  constructor(location: string, context: ObjectCacheContext) {
    this.#context = context;
    this.#location = location.replace(/\/+$/, "");
    this.#folder = join(context.folder, sha256Hex(this.#location).slice(0, 24));
  }

  /**
   * All objects of the place, as they are now.
   *
   * @throws SluiceError `MOUNT_FAILED`, and errors of the store.
   */
  async objects(signal: AbortSignal): Promise<CachedObject[]> {
    const { clock, random } = this.#context;
    const found = await this.#list();
    const objects = found.map((file) => this.#objectOf(file));
    assertApart(objects, this.#location);
    const missing = async () => {
      const areWhole = await Promise.all(objects.map(isWhole));
      return objects.flatMap((object, at) => (areWhole[at] ? [] : [{ object, file: found[at]! }]));
    };
    if ((await missing()).length > 0) {
      const lock = `${this.#folder}.lock`;
      await withFileLock(lock, { clock, random, signal }, async () => {
        await mkdir(this.#folder, { recursive: true });
        const left = await missing();
        for (let at = 0; at < left.length; at += fetchesAtOnce) {
          signal.throwIfAborted();
          const some = left.slice(at, at + fetchesAtOnce);
          await Promise.all(some.map(({ object, file }) => this.#fetch(file, object)));
        }
      });
    }
    await this.#noteUse();
    return objects;
  }

  async #list(): Promise<SourceFile[]> {
    const { inputs } = this.#context;
    const files: SourceFile[] = [];
    try {
      for await (const file of inputs.list(this.#location)) {
        if (objectName(this.#location, file.path) !== undefined) files.push(file);
      }
    } catch (error) {
      // A place for results begins empty.
      if (error instanceof SluiceError && error.code === "INPUT_MISSING") return [];
      throw error;
    }
    return files;
  }

  #objectOf({ path, bytes, etag, modifiedMs }: SourceFile): CachedObject {
    const identity = sha256Hex(JSON.stringify([path, bytes, etag ?? null, modifiedMs]));
    const name = objectName(this.#location, path)!;
    return { name, bytes, file: join(this.#folder, identity.slice(0, 40)) };
  }

  async #fetch(source: SourceFile, { file, bytes }: CachedObject): Promise<void> {
    const { inputs, clock, random } = this.#context;
    const draft = `${file}.${sortableId(clock, random)}`;
    const reader = await inputs.open(source.path, { etag: source.etag });
    try {
      const copied = await copyBytes(reader, draft);
      if (copied !== bytes) {
        const detail = `${copied} bytes came, and the store names ${bytes}`;
        throw new SluiceError("MOUNT_FAILED", detail, { file: source.path });
      }
      await utimes(draft, copyTime, copyTime);
      await chmod(draft, 0o444);
      await rename(draft, file);
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    } finally {
      await reader.close();
    }
  }

  /** Keeps its copies, and removes those of mounts that nobody uses any more. */
  async #noteUse(): Promise<void> {
    const { clock, folder } = this.#context;
    const now = new Date(clock.now());
    await utimes(this.#folder, now, now).catch(() => {});
    for (const name of await readdir(folder).catch(() => [])) {
      const path = join(folder, name);
      const status = await stat(path).catch(() => undefined);
      const isIdle = status && clock.now() - status.mtimeMs > maxIdleMs;
      if (isIdle) await rm(path, { recursive: true, force: true });
    }
  }
}

/** False also for a copy that a program has written to, as root in its namespace may. */
async function isWhole({ file, bytes }: CachedObject): Promise<boolean> {
  const status = await stat(file).catch(() => undefined);
  return status?.size === bytes && status.mtimeMs === copyTime.getTime();
}

/** An object store may hold `a` and `a/b`; a folder cannot. */
function assertApart(objects: readonly CachedObject[], location: string): void {
  const names = new Set(objects.map(({ name }) => name));
  for (const { name } of objects) {
    for (let at = name.indexOf("/"); at >= 0; at = name.indexOf("/", at + 1)) {
      if (!names.has(name.slice(0, at))) continue;
      const detail = `${name.slice(0, at)} is an object, and the folder of ${name}`;
      throw new SluiceError("MOUNT_FAILED", detail, { file: location });
    }
  }
}
