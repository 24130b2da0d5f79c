import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  assertOnnxFolder,
  parseOnnxModelName,
} from "../../../src/engines/transformers/model-place.ts";

describe("parseOnnxModelName", () => {
  it.each([
    ["./opus", "/jobs/opus"],
    ["../opus", "/opus"],
    ["/models/opus", "/models/opus"],
    ["~/opus", join(homedir(), "opus")],
    ["file:///models/opus", "/models/opus"],
  ])("takes %s as a folder", (name, path) => {
    expect(parseOnnxModelName(name, "/jobs")).toEqual({ kind: "folder", path });
  });

  it.each([
    ["owner/name", "owner/name", "main"],
    ["hf:owner/name", "owner/name", "main"],
    ["hf:owner/name.v2@v1.0", "owner/name.v2", "v1.0"],
  ])("takes %s as a repository of the hub", (name, repository, revision) => {
    expect(parseOnnxModelName(name)).toEqual({ kind: "hub", repository, revision });
  });

  it.each(["opus", "https://example.com/a/b", "a/b/c"])("refuses %s", (name) => {
    expect(() => parseOnnxModelName(name)).toThrow(
      expect.objectContaining({ code: "MODEL_UNKNOWN", hint: expect.stringContaining("./") }),
    );
  });
});

describe("assertOnnxFolder", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-onnx-"));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it("takes a folder with a configuration and graphs", async () => {
    await writeFile(join(folder, "config.json"), "{}");
    await mkdir(join(folder, "onnx"));
    await expect(assertOnnxFolder(folder)).resolves.toBeUndefined();
  });

  it("says what is not there", async () => {
    await expect(assertOnnxFolder(folder)).rejects.toMatchObject({
      code: "MODEL_UNREADABLE",
      message: expect.stringContaining("no config.json and no onnx"),
    });
    await expect(assertOnnxFolder(join(folder, "none"))).rejects.toThrow(/is not there/);
  });

  it("refuses a model for PyTorch with the way to run it", async () => {
    await writeFile(join(folder, "config.json"), "{}");
    await writeFile(join(folder, "model.safetensors"), "");
    await expect(assertOnnxFolder(folder)).rejects.toMatchObject({
      code: "MODEL_FORMAT_DIFFERS",
      hint: expect.stringContaining("engine: command"),
    });
  });
});
