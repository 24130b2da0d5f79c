import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";

/** Weights in the formats of PyTorch's libraries. */
const weights = /\.(safetensors|pt|pth|ckpt)$|^(pytorch|tf|flax)_model.*\.(bin|h5|msgpack)$/i;

/** Formats of other engines; a folder with one of them is theirs. */
const foreign = /\.(gguf|onnx)$/i;

/**
 * Whether a path is a model for PyTorch: a folder in the form of Hugging Face's libraries, with
 * `config.json` and weights, or a file with such weights.
 *
 * @returns false also for a missing path, or a folder that has GGUF or ONNX as well.
 * @example
 * await isPytorchModel("/models/opus-mt"); // true
 */
export async function isPytorchModel(path: string): Promise<boolean> {
  if (weights.test(basename(path))) return true;
  try {
    const names = await readdir(path);
    const inner = names.includes("onnx") ? await readdir(join(path, "onnx")) : [];
    if ([...names, ...inner].some((name) => foreign.test(name))) return false;
    return names.includes("config.json") && names.some((name) => weights.test(name));
  } catch {
    return false;
  }
}

/**
 * Refuses a model for PyTorch in an engine for other formats, with the way to run it.
 *
 * @param runs the engine's formats, such as `GGUF files`.
 * @throws SluiceError `MODEL_FORMAT_DIFFERS`.
 */
export async function refusePytorchModel(path: string, runs: string): Promise<void> {
  if (!(await isPytorchModel(path))) return;
  const folder = weights.test(basename(path)) ? dirname(path) : path;
  throw new SluiceError(
    "MODEL_FORMAT_DIFFERS",
    `${path} is for PyTorch; this engine runs ${runs}`,
    {
      field: "model.name",
      hint:
        "run it in Python: model: {engine: command, command: python3, " +
        `args: [-m, hugging_face_predictor, --model, ${folder}]}; see docs/engine-command.md`,
    },
  );
}
