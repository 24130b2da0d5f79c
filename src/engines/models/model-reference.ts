import { basename, resolve } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { type CatalogEntry, catalog, catalogEntry } from "./catalog.ts";
import { pathOfName } from "./model-path.ts";
import { splitPartOf } from "./split-files.ts";

/** The meaning of a model's name. */
export type ModelReference =
  | { kind: "catalog"; name: string; entry: CatalogEntry }
  | { kind: "hub"; name: string; repository: string; file: string; revision: string }
  | { kind: "url"; name: string; url: string; file: string }
  | { kind: "path"; name: string; path: string };

/**
 * Reads a model's name: a catalog name, a path to a GGUF file (`./x.gguf`, `/models/x.gguf`,
 * `~/x.gguf`, `file:///x.gguf`), `hf:owner/repo/folder/file.gguf` with an optional `@revision`
 * after the repository, or an `https://` address.
 *
 * @throws SluiceError `MODEL_UNKNOWN` with the most similar catalog name, `UNSUPPORTED` for a part
 *   of a split model.
 * @example
 * parseModelName("hf:ggml-org/tiny@main/tiny.gguf");
 */
export function parseModelName(
  name: string,
  workingDirectory = ".",
  entries: readonly CatalogEntry[] = catalog,
): ModelReference {
  if (name.startsWith("hf:")) return hubReference(name);
  if (/^https?:\/\//i.test(name)) return urlReference(name);
  const path = pathOfName(name, workingDirectory);
  if (path !== undefined) return { kind: "path", name, path };
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(name)) {
    throw new SluiceError("MODEL_UNKNOWN", `${name}: no model can be read from there`, {
      hint: "give a catalog name, a path, hf:owner/repo/file.gguf or an https:// address",
    });
  }
  if (/[\\/]/.test(name) || name.startsWith(".") || /\.gguf$/i.test(name)) {
    return { kind: "path", name, path: resolve(workingDirectory, name) };
  }
  return { kind: "catalog", name, entry: catalogEntry(name, entries) };
}

const hubName =
  /^hf:(?<repository>[\w.-]+\/[\w.-]+)(?:@(?<revision>[\w.-]+))?\/(?<file>[^\s?#]+\.gguf)$/i;

function hubReference(name: string): ModelReference {
  const groups = hubName.exec(name)?.groups;
  if (!groups || groups.file!.split("/").includes("..")) {
    throw new SluiceError("MODEL_UNKNOWN", `${name} is not hf:owner/repo/file.gguf`, {
      hint: "copy the repository and the file name from the model's page on the hub",
    });
  }
  const file = groups.file!;
  refuseSplit(file);
  const revision = groups.revision ?? "main";
  return { kind: "hub", name, repository: groups.repository!, file, revision };
}

function urlReference(name: string): ModelReference {
  if (!URL.canParse(name)) throw new SluiceError("MODEL_UNKNOWN", `${name} is not an address`);
  const { protocol, host, pathname, username, password } = new URL(name);
  if (username !== "" || password !== "") {
    const shown = `${protocol}//${host}${pathname}`;
    throw new SluiceError("MODEL_UNKNOWN", `${shown}: the address holds a user or password`, {
      hint: "records of the model would keep it: fetch the file by hand and name it by path",
    });
  }
  const file = basename(decoded(pathname)).replaceAll(/[^\w.-]/g, "-");
  refuseSplit(file);
  return { kind: "url", name, url: name, file: file || "model.gguf" };
}

// A `%` without an escape is legal in an address, and stays unchanged.
function decoded(pathname: string): string {
  try {
    return decodeURIComponent(pathname);
  } catch {
    return pathname;
  }
}

/** One of several parts is not a model, and the others would not be fetched. */
function refuseSplit(file: string): void {
  const split = splitPartOf(file);
  if (!split) return;
  throw new SluiceError("UNSUPPORTED", `${file} is part ${split.part} of ${split.parts}`, {
    hint: "fetch all parts by hand into one folder and name the first by path",
  });
}
