import { stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { isModelPath, pathOfName } from "../models/model-path.ts";
import { refusePytorchModel } from "../models/pytorch-folder.ts";

/** The place of a model with ONNX graphs. */
export type OnnxModel =
  | { kind: "folder"; path: string }
  | { kind: "hub"; repository: string; revision: string };

const hubName = /^(?:hf:)?(?<repository>[\w.-]+\/[\w.-]+)(?:@(?<revision>[\w.-]+))?$/;

/**
 * Reads the name of a model: a path (`./opus`, `/models/opus`, `~/opus`, `file:///models/opus`), or
 * a repository on the Hugging Face hub (`owner/name`, `hf:owner/name@revision`).
 *
 * @throws SluiceError `MODEL_UNKNOWN`.
 * @example
 * parseOnnxModelName("owner/name"); // { kind: "hub", repository: "owner/name", revision: "main" }
 */
export function parseOnnxModelName(name: string, workingDirectory = "."): OnnxModel {
  const path = pathOfName(name, workingDirectory);
  if (path !== undefined) return { kind: "folder", path };
  if (isModelPath(name)) return { kind: "folder", path: resolve(workingDirectory, name) };
  const groups = hubName.exec(name)?.groups;
  if (groups) {
    return { kind: "hub", repository: groups.repository!, revision: groups.revision ?? "main" };
  }
  throw new SluiceError(
    "MODEL_UNKNOWN",
    `${name} is neither a folder nor an owner/name on the hub`,
    {
      hint: "write a folder as ./NAME, or copy owner/name from the model's page on the hub",
    },
  );
}

/**
 * Refuses a folder without an ONNX model.
 *
 * @throws SluiceError `MODEL_UNREADABLE`, `MODEL_FORMAT_DIFFERS` for a model for PyTorch.
 */
export async function assertOnnxFolder(path: string): Promise<void> {
  await refusePytorchModel(path, "ONNX models");
  const missing: string[] = [];
  for (const name of ["config.json", "onnx"])
    if (!(await exists(join(path, name)))) missing.push(name);
  if (missing.length === 0) return;
  const detail = (await exists(path))
    ? `${path} has no ${missing.join(" and no ")}`
    : `${path} is not there`;
  throw new SluiceError("MODEL_UNREADABLE", detail, {
    field: "model.name",
    hint: "name a folder with config.json, tokenizer.json and onnx/, as Optimum exports it",
  });
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}
