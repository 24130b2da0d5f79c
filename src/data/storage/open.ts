import { fileURLToPath } from "node:url";
import { SluiceError } from "../../foundation/errors.ts";
import { localStorage } from "./local.ts";
import type { Storage } from "./storage.ts";

// Two letters at least and a slash, so that neither C:/ nor a name with a colon is a scheme.
const schemePattern = /^([a-z][a-z0-9+.-]+):(?=\/)/i;

/** The scheme of a location in lower case (`s3`), or undefined for a path of this machine. */
export function schemeOf(location: string): string | undefined {
  return schemePattern.exec(location)?.[1]?.toLowerCase();
}

/**
 * The storage at `location`: a path (relative ones from the working directory) or a `file:` URL.
 *
 * @throws SluiceError `UNSUPPORTED` for any other scheme.
 * @example
 * openStorage("out").location; // the absolute path of ./out
 */
export function openStorage(location: string): Storage {
  const scheme = schemeOf(location);
  if (scheme === undefined) return localStorage(location);
  if (scheme === "file") return localStorage(fileURLToPath(location));
  throw new SluiceError("UNSUPPORTED", `storage of the scheme ${scheme}: in ${location}`, {
    hint: "give a path of this machine, or a file: URL",
  });
}
