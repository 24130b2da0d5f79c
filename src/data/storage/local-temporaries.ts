import { randomUUID } from "node:crypto";
import { open, readdir, stat, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isAbsent } from "./local-errors.ts";
import type { Leftover } from "./storage.ts";

/** Files that begin so are being made, or were left by a process that died; no list shows them. */
const temporaryPrefix = ".tmp-";

const temporaryName = /^\.tmp-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-(?<object>.+)$/;

/** Characters of an object's name that the name of its temporary file has. */
const maxNameLength = 64;

/** A name that no other process or call makes. It decides nothing, so its chance needs no seed. */
export function temporaryBeside(file: string): string {
  const name = basename(file).slice(0, maxNameLength);
  return join(dirname(file), `${temporaryPrefix}${randomUUID()}-${name}`);
}

/** True for a name such as `temporaryBeside` gives. */
export function isTemporary(name: string): boolean {
  return name.startsWith(temporaryPrefix);
}

/** The temporary files of objects whose path below `root` begins with `prefix`. */
export async function leftoversIn(root: string, prefix: string): Promise<Leftover[]> {
  const slash = prefix.lastIndexOf("/");
  const found = await pathsIn(root, prefix.slice(0, slash + 1), prefix.slice(slash + 1));
  if (found.length === 0) return [];
  const nowMs = await clockOf(root);
  const leftovers = await Promise.all(found.map((path) => leftover(root, path, nowMs)));
  return leftovers.filter((it) => it !== undefined);
}

async function pathsIn(root: string, folder: string, namePrefix: string): Promise<string[]> {
  const entries = await readdir(join(root, folder), { withFileTypes: true }).catch((error) => {
    if (isAbsent(error)) return [];
    throw error;
  });
  const paths: string[] = [];
  for (const entry of entries) {
    const { name } = entry;
    const object = temporaryName.exec(name)?.groups?.object;
    if (object?.startsWith(namePrefix.slice(0, maxNameLength))) paths.push(folder + name);
    else if (entry.isDirectory() && name.startsWith(namePrefix)) {
      paths.push(...(await pathsIn(root, `${folder}${name}/`, "")));
    }
  }
  return paths;
}

// Of a shared directory the clock is another machine's; only its own times can be compared.
async function clockOf(root: string): Promise<number> {
  const file = temporaryBeside(join(root, "clock"));
  const handle = await open(file, "wx");
  try {
    return (await handle.stat()).ctimeMs;
  } finally {
    await handle.close();
    await unlink(file);
  }
}

async function leftover(root: string, path: string, nowMs: number): Promise<Leftover | undefined> {
  try {
    // Of a file that is being published the link is new, while its content may be old.
    const { size, ctimeMs } = await stat(join(root, path));
    return { path, bytes: size, idleMs: nowMs - ctimeMs };
  } catch (error) {
    // Its writer was at work, and is done with it.
    if (isAbsent(error)) return undefined;
    throw error;
  }
}
