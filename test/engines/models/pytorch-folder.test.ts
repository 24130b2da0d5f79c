import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { resolveModel } from "../../../src/engines/models/models.ts";
import { isPytorchModel, refusePytorchModel } from "../../../src/engines/models/pytorch-folder.ts";
import { rejectionOf } from "../engine-context.ts";
import { modelContext, temporaryFolder } from "./context.ts";

async function folderOf(...names: string[]): Promise<string> {
  const folder = await temporaryFolder();
  for (const name of names) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), "");
  }
  return folder;
}

describe("isPytorchModel", () => {
  it("knows folders as Hugging Face's libraries write them, and files of weights", async () => {
    expect(await isPytorchModel(await folderOf("config.json", "model.safetensors"))).toBe(true);
    const parts = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    expect(await isPytorchModel(await folderOf("config.json", ...parts))).toBe(true);
    expect(await isPytorchModel(await folderOf("config.json", "pytorch_model.bin"))).toBe(true);
    expect(await isPytorchModel("/models/gone/model.safetensors")).toBe(true);
  });

  it("leaves to other engines what is theirs", async () => {
    expect(await isPytorchModel(await folderOf("config.json", "model.gguf"))).toBe(false);
    const onnx = await folderOf("config.json", "model.safetensors", "onnx/model.onnx");
    expect(await isPytorchModel(onnx)).toBe(false);
    expect(await isPytorchModel(await folderOf("config.json", "tokenizer.json"))).toBe(false);
    expect(await isPytorchModel(await folderOf("model.safetensors"))).toBe(false);
    expect(await isPytorchModel("/no/such/folder")).toBe(false);
    expect(await isPytorchModel("/models/model.gguf")).toBe(false);
  });
});

describe("refusePytorchModel", () => {
  it("names the way to run the folder as it is", async () => {
    const folder = await folderOf("config.json", "model.safetensors");
    for (const path of [folder, join(folder, "model.safetensors")]) {
      const error = await rejectionOf(refusePytorchModel(path, "GGUF files"));
      expect(error).toMatchObject({
        code: "MODEL_FORMAT_DIFFERS",
        hint: expect.stringContaining(`[-m, hugging_face_predictor, --model, ${folder}]`),
      });
    }
    await expect(refusePytorchModel("/models/model.gguf", "GGUF files")).resolves.toBe(undefined);
  });

  it("is what engine llama says of such a folder", async () => {
    const folder = await folderOf("config.json", "model.safetensors");
    const asked = resolveModel(folder, await modelContext(), { download: false });
    expect(await rejectionOf(asked)).toMatchObject({ code: "MODEL_FORMAT_DIFFERS" });
  });
});
