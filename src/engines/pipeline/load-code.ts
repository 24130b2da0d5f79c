import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { importedModule, namedExport } from "../user-module.ts";
import type { StageOptions } from "./options.ts";

/**
 * Loads the code of a stage from a module: its default export, or the named one.
 *
 * @throws SluiceError `STAGE_UNUSABLE`, with the file and its fault.
 */
export async function loadStageCode(stage: StageOptions): Promise<unknown> {
  const { module, moduleSha256, export: name = "default" } = stage;
  if (module === undefined) return undefined;
  if (moduleSha256 !== undefined && moduleSha256 !== (await moduleDigest(module))) {
    throw unusable(module, "it is not the one that the run was planned with");
  }
  const exports = await importedModule(module, unusable);
  return namedExport(exports, name, { path: module, key: "export", unusable });
}

/**
 * SHA-256 of a module's file.
 *
 * @param known the result where the file is missing: then it is where the workers are.
 * @throws SluiceError `STAGE_UNUSABLE` if it cannot be read.
 */
export async function moduleDigest(module: string, known?: string): Promise<string> {
  try {
    return sha256Hex(await readFile(module));
  } catch (thrown) {
    if (known !== undefined) return known;
    throw unusable(module, (thrown as Error).message, thrown);
  }
}

function unusable(module: string, problem: string, cause?: unknown): SluiceError {
  const detail = `${basename(module)}: ${problem}`;
  return new SluiceError("STAGE_UNUSABLE", detail, { file: module, field: "model.stages", cause });
}
