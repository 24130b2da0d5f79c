import { mkdir, readFile, rename, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { sha256Hex } from "../../foundation/hashing.ts";
import { jsonObjectIn } from "../../foundation/json.ts";
import { hashFiles } from "./part-file.ts";

/** The state of files at one moment. */
interface KeptDigest {
  /** Size and modification time of each, as text. */
  stamps: string[];
  sha256: string;
}

/**
 * The sha256 of files as if they were one, which for a large model takes as long as loading it: it
 * is kept in the cache and used while size and modification time of each file are unchanged. If it
 * cannot be kept, it is computed each time.
 *
 * @throws Error of the file system if a file cannot be read.
 */
export async function keptSha256(paths: readonly string[], homeDirectory: string): Promise<string> {
  const stamps = await Promise.all(paths.map(stampOf));
  const file = join(homeDirectory, "digests", `${sha256Hex(paths.join("\n"))}.json`);
  const kept = await readKept(file);
  if (kept && JSON.stringify(kept.stamps) === JSON.stringify(stamps)) return kept.sha256;
  const { sha256 } = await hashFiles(paths);
  await keep(file, { stamps, sha256 }).catch(() => {});
  return sha256;
}

async function stampOf(path: string): Promise<string> {
  const { size, mtimeNs } = await stat(path, { bigint: true });
  return `${size} ${mtimeNs}`;
}

async function readKept(file: string): Promise<KeptDigest | undefined> {
  try {
    return jsonObjectIn(await readFile(file, "utf8")) as KeptDigest | undefined;
  } catch {
    return undefined;
  }
}

async function keep(file: string, digest: KeptDigest): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  const temporary = `${file}.new`;
  await writeFile(temporary, JSON.stringify(digest));
  await rename(temporary, file);
}
