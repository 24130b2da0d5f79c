import { realpath } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { openS3Bucket, type S3Context } from "../s3/open.ts";
import { bucketSettings, isObjectScheme, parseObjectLocation } from "../s3/settings.ts";
import { storeWords } from "../s3/store-options.ts";
import { localStorage } from "./local.ts";
import { S3Storage } from "./s3/s3-storage.ts";
import { FileSpool } from "./s3/spool.ts";
import type { Storage } from "./storage.ts";

// At least two letters and a slash, so that C:/ and a name with a colon are not schemes.
const schemePattern = /^([a-z][a-z0-9+.-]+):(?=\/)/i;

/** The scheme of a location in lower case (`s3`), or undefined for a local path. */
export function schemeOf(location: string): string | undefined {
  return schemePattern.exec(location)?.[1]?.toLowerCase();
}

/** A location that means the same wherever a program runs: a path becomes absolute. */
export function absoluteLocation(workingDirectory: string, location: string): string {
  return schemeOf(location) === undefined ? resolve(workingDirectory, location) : location;
}

/** A location with links resolved, so that two names of one place are equal. */
export async function realLocation(location: string): Promise<string> {
  if (schemeOf(location) !== undefined) return location;
  return await realpath(location).catch(() => location);
}

/** What storages need from outside. */
export interface StorageContext extends S3Context {
  /** Local folder for appended bytes that are not in an object store yet. */
  spoolDirectory: string;
}

export type OpenStorage = (location: string) => Storage;

/**
 * Returns a function that opens storages: a path (relative to the working directory), a `file:`
 * URL, or `s3://BUCKET/PREFIX`, `r2://…`, `gs://…`. Opening sends no request.
 *
 * @throws the returned function: SluiceError `UNSUPPORTED` for any other scheme.
 * @example
 * const openStorage = storageOpener(context);
 * openStorage("out").location; // the absolute path of ./out
 */
export function storageOpener(context: StorageContext): OpenStorage {
  return (location) => {
    const scheme = schemeOf(location);
    if (scheme === undefined) return localStorage(location);
    if (scheme === "file") return localStorage(fileURLToPath(location));
    if (isObjectScheme(scheme)) return objectStorage(location, context);
    throw new SluiceError("UNSUPPORTED", `storage of the scheme ${scheme}: in ${location}`, {
      hint: "give a path of this machine, a file: URL, or s3://BUCKET/PREFIX",
    });
  };
}

function objectStorage(given: string, context: StorageContext): Storage {
  const { scheme, bucket: name, key } = parseObjectLocation(given);
  const { clock, environment, store = {}, spoolDirectory } = context;
  const path = key.replace(/\/+$/, "");
  const prefix = path === "" ? "" : `${path}/`;
  const location = path === "" ? `${scheme}://${name}` : `${scheme}://${name}/${path}`;
  const { endpoint = "" } = bucketSettings(scheme, store, environment);
  // The same bucket name at another endpoint is another place.
  const place = sha256Hex(`${endpoint} ${location}`).slice(0, 32);
  return new S3Storage({
    location,
    flags: storeWords(store),
    bucket: openS3Bucket(location, context),
    prefix,
    spool: new FileSpool(join(spoolDirectory, place)),
    clock,
    isConditional: store.conditional !== "none",
  });
}
