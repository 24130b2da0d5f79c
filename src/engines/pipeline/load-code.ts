import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { nearest } from "../../foundation/suggest.ts";
import { explained } from "../predictor/explained.ts";
import type { StageOptions } from "./options.ts";

/**
 * Loads the code of a stage that is in a module: its default export, or the one that it names.
 *
 * @throws SluiceError `STAGE_UNUSABLE`, naming the file and what is wrong with it.
 */
export async function loadStageCode(stage: StageOptions): Promise<unknown> {
  const { module, moduleSha256, export: name = "default" } = stage;
  if (module === undefined) return undefined;
  if (moduleSha256 !== undefined && moduleSha256 !== (await moduleDigest(module))) {
    throw unusable(module, "it is not the one that the run was planned with");
  }
  const exports = await imported(module);
  if (exports[name] !== undefined) return exports[name];
  const names = Object.keys(exports);
  const meant = nearest(name, names);
  const instead =
    meant === undefined ? `it exports ${names.join(", ") || "nothing"}` : `did you mean ${meant}?`;
  throw unusable(module, `it has no export ${name}; ${instead}`);
}

/** SHA-256 of a module's file. @throws SluiceError `STAGE_UNUSABLE` where it cannot be read. */
export async function moduleDigest(module: string): Promise<string> {
  try {
    return sha256Hex(await readFile(module));
  } catch (thrown) {
    throw unusable(module, (thrown as Error).message, thrown);
  }
}

async function imported(module: string): Promise<Record<string, unknown>> {
  try {
    return (await import(pathToFileURL(module).href)) as Record<string, unknown>;
  } catch (thrown) {
    throw unusable(module, `it does not load: ${explained(thrown, module)}`, thrown);
  }
}

function unusable(module: string, problem: string, cause?: unknown): SluiceError {
  const detail = `${basename(module)}: ${problem}`;
  return new SluiceError("STAGE_UNUSABLE", detail, { file: module, field: "model.stages", cause });
}
