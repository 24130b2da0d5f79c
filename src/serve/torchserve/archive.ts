import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, mkdtemp, open, readFile, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { crc32 } from "node:zlib";
import { Zip, ZipDeflate } from "fflate";
import { type Entry, openPromise, type ZipFile } from "yauzl";
import { withStoreErrors } from "../../data/storage/local-errors.ts";
import { hashFiles } from "../../engines/models/part-file.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { type Manifest, manifestSchema } from "./archive-options.ts";

/** Where an archive's manifest lies. */
const manifestPath = "MAR-INF/MANIFEST.json";

/** Types of files in the mode of a zip's entry, as Unix has them. */
const fileTypes = { mask: 0o170000, regular: 0o100000, directory: 0o040000 };

export interface UnpackedArchive {
  directory: string;
  manifest: Manifest;
}

/**
 * Unpacks a model archive, once for each content: into `directory`, under the digest of the file.
 *
 * @throws SluiceError `ARCHIVE_INVALID` for what is not an archive, or could do harm: a path that
 *   leads out of it, a link, or more than `limits.maxArchive…` allows; nothing of it is kept.
 */
export async function unpackArchive(path: string, directory: string): Promise<UnpackedArchive> {
  const { sha256 } = await hashFiles([path]);
  const target = join(directory, sha256);
  const isUnpacked = await stat(target).then(
    () => true,
    () => false,
  );
  if (!isUnpacked) await unpackInto(path, target);
  return { directory: target, manifest: await readManifest(path, target) };
}

async function unpackInto(path: string, target: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const draft = await mkdtemp(`${target}.`);
  try {
    const zip = await openPromise(path, {
      ...{ lazyEntries: true, autoClose: false, decodeStrings: true, strictFileNames: true },
      validateEntrySizes: true,
    }).catch((cause: Error) => {
      throw invalid(path, cause.message, cause);
    });
    try {
      await unpackEntries(zip, path, draft);
    } finally {
      zip.close();
    }
    // Another process may have been as fast, with the same files.
    await rename(draft, target).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

async function unpackEntries(zip: ZipFile, path: string, draft: string): Promise<void> {
  if (zip.entryCount > limits.maxArchiveFiles) {
    throw invalid(path, `it has over ${limits.maxArchiveFiles} files`);
  }
  const budget = new Budget(path, zip.fileSize);
  const names = new Set<string>();
  try {
    for await (const entry of zip.eachEntry()) {
      const name = entry.fileName;
      assertPlain(entry, path);
      if (names.has(name)) throw invalid(path, `${name} is there twice`);
      names.add(name);
      if (name.endsWith("/")) continue;
      const file = join(draft, name);
      await mkdir(dirname(file), { recursive: true });
      const stream = await zip.openReadStreamPromise(entry);
      await pipeline(stream, budget.checked(entry), createWriteStream(file, { flags: "wx" }));
    }
  } catch (thrown) {
    if (thrown instanceof SluiceError) throw thrown;
    throw invalid(path, (thrown as Error).message, thrown);
  }
}

/** @throws SluiceError for a link, a device, or a file with a password. */
function assertPlain(entry: Entry, path: string): void {
  const { fileName: name } = entry;
  const type = (entry.externalFileAttributes >>> 16) & fileTypes.mask;
  const isPlain = type === 0 || type === fileTypes.regular || type === fileTypes.directory;
  if (!isPlain) throw invalid(path, `${name} is a link or a device`);
  if (entry.isEncrypted()) throw invalid(path, `${name} is encrypted`);
}

/** The bytes that an archive may still unpack, whatever its headers claim. */
class Budget {
  readonly #path: string;
  readonly #most: number;
  #bytes = 0;

  constructor(path: string, archiveBytes: number) {
    this.#path = path;
    const { maxArchiveRatio, smallArchiveBytes, maxArchiveBytes } = limits;
    const byRatio = Math.max(smallArchiveBytes, archiveBytes * maxArchiveRatio);
    this.#most = Math.min(maxArchiveBytes, byRatio);
  }

  /** Passes a file on, and refuses one beyond the budget or with another checksum than its own. */
  checked({ fileName, crc32: expected }: Entry): Transform {
    let checksum = 0;
    return new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        this.#bytes += chunk.length;
        checksum = crc32(chunk, checksum);
        if (this.#bytes <= this.#most) return done(null, chunk);
        done(invalid(this.#path, `its files have over ${this.#most} bytes`));
      },
      flush: (done) => {
        if (checksum === expected) return done();
        done(invalid(this.#path, `${fileName} is damaged: its checksum differs`));
      },
    });
  }
}

async function readManifest(path: string, directory: string): Promise<Manifest> {
  const text = await readFile(join(directory, manifestPath), "utf8").catch((cause) => {
    throw invalid(path, `it has no ${manifestPath}`, cause);
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw invalid(path, `${manifestPath}: ${(cause as Error).message}`, cause);
  }
  const parsed = manifestSchema.safeParse(value, { jitless: true });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw invalid(path, `${manifestPath}: ${issue!.path.join(".")}: ${issue!.message}`);
}

function invalid(path: string, detail: string, cause?: unknown): SluiceError {
  return new SluiceError("ARCHIVE_INVALID", detail, { file: basename(path), cause });
}

/** Largest file and archive that the zip format holds without its extension. */
const maxZipBytes = 2 ** 32 - 1;

/** A file that goes into an archive under its own name. */
export interface ArchivedFile {
  path: string;
  name: string;
}

/**
 * Writes a model archive: its manifest and its files, which are read piece by piece. It appears as
 * a whole or not at all.
 *
 * @throws SluiceError `ARCHIVE_INVALID` for more bytes than a zip holds; errors of the file system.
 */
export async function writeArchive(
  target: string,
  manifest: Manifest,
  files: readonly ArchivedFile[],
): Promise<void> {
  const draft = `${target}.part`;
  const output = await withStoreErrors(target, () => open(draft, "w"));
  try {
    let writing: Promise<unknown> = Promise.resolve();
    const zip = new Zip((error, chunk) => {
      writing = error ? Promise.reject(error) : writing.then(() => output.write(chunk));
    });
    const add = (entry: ZipDeflate) => {
      // Zip's time has no zone; a fixed one makes equal archives of equal files.
      entry.mtime = "1980-01-01T00:00:00";
      zip.add(entry);
      return entry;
    };
    const text = Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`);
    // Deflated: Java refuses stored entries whose sizes stand behind them.
    add(new ZipDeflate(manifestPath)).push(text, true);
    let total = 0;
    for (const { path, name } of files) {
      const entry = add(new ZipDeflate(name, { level: 6 }));
      for await (const chunk of createReadStream(path)) {
        total += (chunk as Buffer).length;
        if (total > maxZipBytes) throw invalid(target, "its files have over 4 GB");
        entry.push(chunk as Buffer);
        await writing;
      }
      entry.push(new Uint8Array(), true);
    }
    zip.end();
    await writing;
    await output.sync();
    await output.close();
    await rename(draft, target);
  } catch (error) {
    await output.close().catch(() => {});
    await rm(draft, { force: true });
    throw error;
  }
}
