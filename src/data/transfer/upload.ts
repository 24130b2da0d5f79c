import { stat } from "node:fs/promises";
import { relative, sep } from "node:path";
import { eachAtOnce } from "../../foundation/each-at-once.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import type { S3Bucket } from "../s3/bucket.ts";
import { openS3Bucket, type S3Context } from "../s3/open.ts";
import type { BegunUpload, StoredPart } from "../s3/requests.ts";
import { parseObjectLocation } from "../s3/settings.ts";
import type { InputStores } from "../sources/open.ts";
import type { SourceFile } from "../sources/source-store.ts";
import { schemeOf } from "../storage/open.ts";
import { chunksOf, hasSameContent, md5Of } from "./same-content.ts";
import {
  type FileOutcome,
  type TransferOptions,
  type TransferSummary,
  TransferTally,
  transferredFilesAtOnce,
} from "./transfer.ts";

/** What a transfer needs from outside. */
export interface TransferContext {
  inputs: InputStores;
  stores: S3Context;
}

/**
 * Copies a local folder, or one file, below a prefix of a bucket, several files at once. A file
 * that exists with the same content is left alone. The stored parts of a large file are continued,
 * so the same call resumes after a kill. Each request carries a checksum, which the store compares.
 * Nothing is ever deleted.
 *
 * @param from absolute path.
 * @param to as `s3://BUCKET/PREFIX`. A single file gets exactly this name, or its own name below it
 *   if `to` ends in a slash.
 * @throws SluiceError `INPUT_MISSING`, `INPUT_CHANGED` for a file that changed meanwhile,
 *   `STORE_FAILED`.
 */
export async function upload(
  from: string,
  to: string,
  { inputs, stores }: TransferContext,
  options: TransferOptions,
): Promise<TransferSummary> {
  if (schemeOf(from) !== undefined) {
    const hint = "download it first, or copy it with a tool of the store";
    throw new SluiceError("USAGE", `${from} is not a place on this machine`, { hint });
  }
  const { scheme, bucket: name, key: prefix } = parseObjectLocation(to);
  const root = `${scheme}://${name}/`;
  const bucket = openS3Bucket(to, stores);
  const tally = new TransferTally(options);
  const keyOf = await keysBelow(from, prefix);
  const moveFile = async ({ path, bytes, modifiedMs }: SourceFile): Promise<void> => {
    const key = keyOf(path);
    const target = `${root}${key}`;
    const standing = await bucket.head(key);
    const far = standing && {
      path: target,
      bytes: standing.bytes,
      etag: standing.etag || undefined,
    };
    let outcome: FileOutcome = "moved";
    if (far && (await hasSameContent(path, { modifiedMs: 0, ...far }, inputs.open))) {
      outcome = "skipped";
    } else if (far && !options.overwrite) outcome = "different";
    else {
      const begun = await begunUpload(path, bytes, bucket, key);
      tally.moved(begun.bytes);
      const writer = bucket.writer(key, { begun: begun.upload, bytes });
      for await (const chunk of chunksOf(path, begun.bytes)) {
        options.signal.throwIfAborted();
        await writer.write(chunk);
        tally.moved(chunk.length);
      }
      const now = await stat(path).catch(() => undefined);
      if (now?.size !== bytes || now.mtimeMs !== modifiedMs) {
        await writer.abort();
        throw changed(path);
      }
      await writer.close();
      const stored = await bucket.head(key);
      if (stored?.bytes !== bytes) throw changed(path);
    }
    tally.ended(outcome, target, bytes);
  };
  const files = inputs.list(from, () => tally.leftOut());
  await eachAtOnce(files, transferredFilesAtOnce, (file) => tally.move(() => moveFile(file)));
  return tally.summary;
}

async function keysBelow(from: string, prefix: string): Promise<(path: string) => string> {
  const isFile = (await stat(from).catch(() => undefined))?.isFile() === true;
  if (isFile && prefix !== "" && !prefix.endsWith("/")) return () => prefix;
  const folder = prefix === "" || prefix.endsWith("/") ? prefix : `${prefix}/`;
  const top = isFile ? from.slice(0, from.lastIndexOf(sep)) : from;
  return (path) => folder + relative(top, path).split(sep).join("/");
}

/** The unfinished upload of a large file by an earlier call, and how many bytes it holds. */
async function begunUpload(
  path: string,
  bytes: number,
  bucket: S3Bucket,
  key: string,
): Promise<{ upload?: BegunUpload; bytes: number }> {
  if (bytes <= limits.storePartBytes) return { bytes: 0 };
  // Permission to write does not imply permission to list uploads.
  const open = await bucket.uploads(key).catch(() => []);
  const own = open.filter((upload) => upload.key === key);
  for (const { uploadId } of own.sort((a, b) => b.begunMs - a.begunMs)) {
    const stored = await bucket.parts(key, uploadId).catch(() => []);
    const right = await rightParts(path, bytes, stored);
    if (right.parts.length > 0) {
      return { upload: { uploadId, parts: right.parts }, bytes: right.bytes };
    }
  }
  return { bytes: 0 };
}

/** The leading parts whose content matches the file. */
async function rightParts(
  path: string,
  fileBytes: number,
  stored: readonly StoredPart[],
): Promise<{ parts: StoredPart[]; bytes: number }> {
  const parts: StoredPart[] = [];
  let bytes = 0;
  for (const part of stored) {
    const end = bytes + part.bytes;
    // Only the last part of an object may be small.
    const isUsable = part.bytes >= limits.storePartBytes || end === fileBytes;
    if (part.number !== parts.length + 1 || !isUsable || end > fileBytes) break;
    if (part.etag.replaceAll('"', "") !== (await md5Of(path, bytes, end))) break;
    parts.push(part);
    bytes = end;
  }
  return { parts, bytes };
}

function changed(file: string): SluiceError {
  return new SluiceError("INPUT_CHANGED", "it changed while it was uploaded", {
    file,
    hint: "run the same command again, when no process writes to it",
  });
}
