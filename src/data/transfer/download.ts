import { constants, type FileHandle, link, mkdir, open, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { eachAtOnce } from "../../foundation/each-at-once.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { limits } from "../../foundation/limits.ts";
import { systemCode } from "../../foundation/system-errors.ts";
import type { InputStores } from "../sources/open.ts";
import type { SourceFile } from "../sources/source-store.ts";
import { isLinkUnsupported, withStoreErrors } from "../storage/local-errors.ts";
import { hasSameContent } from "./same-content.ts";
import {
  type FileOutcome,
  type TransferOptions,
  type TransferSummary,
  TransferTally,
  transferredFilesAtOnce,
} from "./transfer.ts";

/** Ending of a file that is not complete yet. */
const partEnding = ".sluice-part";

/**
 * Copies all files below a remote place into a local folder, several at once. A file gets its name
 * when it is complete and its checksum is right. The partial file of an earlier call is continued.
 * A file that exists with the same content is left alone. Nothing is ever deleted.
 *
 * @param to absolute path of the folder.
 * @throws SluiceError `INPUT_MISSING` if there is nothing, `INPUT_CHANGED` for a file that changed
 *   meanwhile, `STORE_FULL`, `STORE_FAILED`, and the errors of reading.
 */
export async function download(
  from: string,
  to: string,
  inputs: InputStores,
  options: TransferOptions,
): Promise<TransferSummary> {
  const tally = new TransferTally(options);
  let found = 0;
  const move = async (file: SourceFile): Promise<void> => {
    found++;
    const target = join(to, nameBelow(from, file));
    await withStoreErrors(target, async () => {
      if (isFolderMark(file)) return void (await mkdir(target, { recursive: true }));
      const outcome = await fetchFile(file, target, { inputs, options, tally });
      tally.ended(outcome, target, file.bytes);
    });
  };
  await eachAtOnce(inputs.list(from), transferredFilesAtOnce, (file) =>
    tally.move(() => move(file)),
  );
  if (found === 0) throw new SluiceError("INPUT_MISSING", from, { hint: "nothing lies there" });
  return tally.summary;
}

/** True for an empty object that stands for a folder, as many web consoles make them. */
function isFolderMark({ path, bytes }: SourceFile): boolean {
  return path.endsWith("/") && bytes === 0;
}

/** The path of a remote file below the named place; empty for the place itself. */
function nameBelow(place: string, file: SourceFile): string {
  const { path } = file;
  const folder = place.replace(/\/*$/, "/");
  if (path === folder && isFolderMark(file)) return "";
  const below = path.startsWith(folder) ? path.slice(folder.length) : basename(path);
  const name = isFolderMark(file) ? below.slice(0, -1) : below;
  const steps = name.split("/");
  const isOutside = steps.some((step) => step === "" || step === "." || step === "..");
  if (!isOutside && !name.includes("\0")) return join(...steps);
  throw unusable(path, "its name is not a path below a folder");
}

function unusable(file: string, detail: string): SluiceError {
  return new SluiceError("UNSUPPORTED", detail, { file, hint: "rename it in the store" });
}

interface Download {
  inputs: InputStores;
  options: TransferOptions;
  tally: TransferTally;
}

async function fetchFile(file: SourceFile, target: string, to: Download): Promise<FileOutcome> {
  const { inputs, options } = to;
  const standing = await stat(target).catch(() => undefined);
  if (standing) {
    if (standing.isDirectory()) throw unusable(file.path, `a folder has its name: ${target}`);
    if (await hasSameContent(target, file, inputs.open)) return "skipped";
    if (!options.overwrite) return "different";
  }
  await mkdir(dirname(target), { recursive: true });
  const identity = sha256Hex(`${file.path} ${file.bytes} ${file.etag ?? ""}`).slice(0, 8);
  // A file name has 255 bytes at most.
  const name = basename(target).slice(0, 50);
  const part = join(dirname(target), `${name}.${identity}${partEnding}`);
  await fill(part, file, to);
  if (!(await hasSameContent(part, file, inputs.open))) {
    // The partial file of an earlier call was torn.
    await rm(part);
    await fill(part, file, to);
    if (!(await hasSameContent(part, file, inputs.open))) throw changed(file.path);
  }
  if (options.overwrite) await rename(part, target);
  else if (await linked(part, target)) await rm(part, { force: true });
  else return "different";
  return "moved";
}

async function fill(
  part: string,
  { path, etag, bytes }: SourceFile,
  { inputs, options, tally }: Download,
): Promise<void> {
  const handle = await open(part, constants.O_RDWR | constants.O_CREAT);
  try {
    let { size: offset } = await handle.stat();
    if (offset > bytes) {
      await handle.truncate(0);
      offset = 0;
    }
    tally.moved(offset);
    const reader = await inputs.open(path, { etag });
    try {
      while (offset < bytes) {
        options.signal.throwIfAborted();
        const chunk = await reader.read(offset, limits.transferChunkBytes);
        if (chunk.length === 0) throw changed(path);
        await writeAt(handle, chunk, offset);
        offset += chunk.length;
        tally.moved(chunk.length);
      }
    } finally {
      await reader.close();
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Writes at an offset: if two calls fetch one file at once, both write the same bytes. */
async function writeAt(handle: FileHandle, chunk: Uint8Array, offset: number): Promise<void> {
  for (let done = 0; done < chunk.length; ) {
    const left = chunk.length - done;
    done += (await handle.write(chunk, done, left, offset + done)).bytesWritten;
  }
}

/** Gives the file its name; false if the name is taken. */
async function linked(part: string, target: string): Promise<boolean> {
  try {
    await link(part, target);
    return true;
  } catch (error) {
    if (systemCode(error) === "EEXIST") return false;
    if (!isLinkUnsupported(error)) throw error;
    if (await stat(target).catch(() => undefined)) return false;
    await rename(part, target);
    return true;
  }
}

function changed(file: string): SluiceError {
  return new SluiceError("INPUT_CHANGED", "what came is not what the store says it is", {
    file,
    hint: "run the same command again",
  });
}
