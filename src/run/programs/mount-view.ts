import { constants, copyFile, link, mkdir, opendir, rm, stat } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { type CachedObject, type ObjectCache, stagingFolder } from "./object-cache.ts";

export interface ResultFile {
  /** Below the mount. */
  name: string;
  /** On this machine. */
  file: string;
  bytes: number;
}

/** What a file was when the program began: a change of any shows that it wrote there. */
interface Before {
  bytes: number;
  inode: number;
  modifiedMs: number;
}

/**
 * A mount as the program of one try sees it: a folder of its own with the objects of the place, in
 * which it may do what it likes. Objects are links to the copies of this machine.
 */
export class MountView {
  readonly folder: string;
  readonly #before = new Map<string, Before>();

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** @throws SluiceError `MOUNT_FAILED`, and errors of the store. */
  static async open(folder: string, cache: ObjectCache, signal: AbortSignal): Promise<MountView> {
    const objects = await cache.objects(signal);
    const view = new MountView(folder);
    await mkdir(folder, { recursive: true });
    for (const folders of new Set(objects.map(({ name }) => dirname(name)))) {
      await mkdir(join(folder, folders), { recursive: true });
    }
    for (const object of objects) await view.#place(object);
    return view;
  }

  async #place({ name, bytes, file }: CachedObject): Promise<void> {
    const path = join(this.folder, name);
    // Another file system, or one without links.
    await link(file, path).catch(() => copyFile(file, path, constants.COPYFILE_EXCL));
    const { ino, mtimeMs } = await stat(path);
    this.#before.set(name, { bytes, inode: ino, modifiedMs: mtimeMs });
  }

  /**
   * The files that are new or changed.
   *
   * @throws SluiceError `MOUNT_FAILED` for what no store can keep, such as a link.
   */
  async results(): Promise<ResultFile[]> {
    const found: ResultFile[] = [];
    for await (const file of filesBelow(this.folder)) {
      const name = relative(this.folder, file);
      const { ino, size, mtimeMs } = await stat(file);
      const before = this.#before.get(name);
      const isSame = before?.inode === ino && before.modifiedMs === mtimeMs;
      if (isSame && before.bytes === size) continue;
      if (name.startsWith(stagingFolder)) {
        throw new SluiceError("MOUNT_FAILED", `${stagingFolder} belongs to Sluice`, { file: name });
      }
      found.push({ name, file, bytes: size });
    }
    return found.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}

async function* filesBelow(folder: string): AsyncGenerator<string> {
  for await (const entry of await opendir(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* filesBelow(path);
    else if (entry.isFile()) yield path;
    else {
      const detail = "only files can be results, and this is a link, a pipe or a device";
      throw new SluiceError("MOUNT_FAILED", detail, { file: relative(folder, path) });
    }
  }
}
