import { readdir, readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import type { Json } from "../../foundation/json.ts";
import { keptSha256 } from "../models/kept-digest.ts";
import type { ModelContext } from "../models/model-context.ts";
import { parseModelName } from "../models/model-reference.ts";
import { type ResolveOptions, resolveModel } from "../models/models.ts";
import { modelFiles } from "../models/split-files.ts";
import { checkGgufFile } from "../weights/gguf-file.ts";
import { readGgufMetadata } from "../weights/gguf-metadata.ts";

/** Architectures that OpenVINO GenAI reads from GGUF. Source: its `gguf_modeling.cpp`. */
const ggufArchitectures = ["llama", "qwen2", "qwen3"];

/** A model on this machine, in one of the library's forms. */
export interface Weights {
  /** A GGUF file, or a folder in OpenVINO's form. */
  path: string;
  /** Most tokens of prompt and answer, if the model's files say so. */
  trainedTokens: number | undefined;
  /** The chat template for conversations with tools, if it is another one. */
  toolTemplate: string | undefined;
  /** The weights, for the log and the manifest. */
  facts: Readonly<Record<string, Json>>;
}

/**
 * The weights of a job, fetched if necessary: a GGUF file as in `resolveModel`, or a folder with
 * `openvino_model.xml`.
 *
 * @throws SluiceError as `resolveModel`; `MODEL_FORMAT_DIFFERS` if the library cannot read them,
 *   `MODEL_UNREADABLE` if a folder lacks one of a model's files.
 */
export async function findWeights(
  name: string,
  context: ModelContext,
  options: ResolveOptions,
): Promise<Weights> {
  const reference = parseModelName(name, context.workingDirectory);
  if (reference.kind === "path" && (await isFolder(reference.path))) {
    return folderWeights(reference.path, context);
  }
  const { path, sha256 } = await resolveModel(name, context, options);
  await checkGgufFile(path);
  const metadata = await readGgufMetadata(path);
  const architecture = metadata.general?.architecture ?? "";
  if (!ggufArchitectures.includes(architecture)) {
    const detail = `${basename(path)} is of architecture ${architecture || "that it does not say"}`;
    const known = ggufArchitectures.join(", ");
    throw new SluiceError("MODEL_FORMAT_DIFFERS", detail, {
      hint: `OpenVINO reads GGUF of ${known}: take engine llama, or a folder that optimum-cli wrote`,
    });
  }
  const sections = metadata[architecture] as { context_length?: number } | undefined;
  const files = await modelFiles(path);
  const template = metadata.tokenizer?.chat_template;
  return {
    path,
    trainedTokens: sections?.context_length,
    toolTemplate: typeof template === "object" ? template.tool_use : undefined,
    facts: {
      file: basename(path),
      sha256: sha256 ?? (await keptSha256(files, context.homeDirectory)),
    },
  };
}

async function folderWeights(path: string, context: ModelContext): Promise<Weights> {
  const names = await readdir(path);
  const missing = ["openvino_model.xml", "openvino_model.bin", "openvino_tokenizer.xml"].find(
    (name) => !names.includes(name),
  );
  if (missing !== undefined) {
    throw new SluiceError("MODEL_UNREADABLE", `${path} holds no ${missing}`, {
      file: path,
      hint: "write the folder by optimum-cli export openvino --model NAME FOLDER",
    });
  }
  const weights = join(path, "openvino_model.bin");
  return {
    path,
    trainedTokens: await positionsOf(join(path, "config.json")),
    toolTemplate: await toolTemplateIn(path),
    facts: { file: basename(path), sha256: await keptSha256([weights], context.homeDirectory) },
  };
}

async function positionsOf(config: string): Promise<number | undefined> {
  try {
    const { max_position_embeddings: positions } = JSON.parse(await readFile(config, "utf8"));
    return Number.isInteger(positions) && positions > 0 ? positions : undefined;
  } catch {
    return undefined;
  }
}

/** As transformers writes it: in a file of its own, formerly in a list of templates. */
async function toolTemplateIn(folder: string): Promise<string | undefined> {
  const text = async (name: string) => readFile(join(folder, name), "utf8");
  try {
    return await text("additional_chat_templates/tool_use.jinja");
  } catch {}
  try {
    const { chat_template: named } = JSON.parse(await text("tokenizer_config.json"));
    const found = Array.isArray(named) ? named.find(({ name }) => name === "tool_use") : undefined;
    return typeof found?.template === "string" ? found.template : undefined;
  } catch {
    return undefined;
  }
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
}
