import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { resolveModel, verifyModel } from "../../../src/engines/models/models.ts";
import { modelFiles, splitPartOf } from "../../../src/engines/models/split-files.ts";
import { checkGgufFile } from "../../../src/engines/weights/gguf-file.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { errorOf } from "../../run/run-fixture.ts";
import { ggufBytes, modelContext, temporaryFolder } from "./context.ts";

const nameOf = (part: number) => `big-0000${part}-of-00003.gguf`;
const contents = [ggufBytes(100, 1), ggufBytes(200, 2), ggufBytes(300, 3)];

/** A folder with some parts of a model, and the path of one. */
async function partsIn(...parts: number[]): Promise<(part: number) => string> {
  const folder = await temporaryFolder();
  for (const part of parts) await writeFile(join(folder, nameOf(part)), contents[part - 1]!);
  return (part) => join(folder, nameOf(part));
}

describe("a split model", () => {
  it("is told by its name", () => {
    const split = splitPartOf("/m/Big-Q4-00002-of-00012.GGUF");
    expect(split).toMatchObject({ part: 2, parts: 12 });
    expect(split?.nameOf(11)).toBe("Big-Q4-00011-of-00012.GGUF");
    expect(splitPartOf("/m-00001-of-00002.gguf/plain.gguf")).toBeUndefined();
    expect(splitPartOf("one-00001-of-00001.gguf")).toBeUndefined();
  });

  it("is its first part, with all others beside it", async () => {
    const pathOf = await partsIn(1, 2, 3);
    const context = await modelContext();
    const path = pathOf(1);
    expect(await modelFiles(path)).toEqual([1, 2, 3].map(pathOf));
    const model = await resolveModel(path, context, { download: false });
    expect(model).toEqual({ path, name: path, bytes: 600, source: "file" });
    const check = await verifyModel(path, context);
    expect(check).toMatchObject({ bytes: 600, sha256: sha256Hex(Buffer.concat(contents)) });
  });

  it("may have a first part that only describes it", async () => {
    const pathOf = await partsIn();
    const header = Buffer.alloc(32);
    header.write("GGUF");
    header.writeUInt32LE(3, 4);
    await writeFile(pathOf(1), header);
    expect(await checkGgufFile(pathOf(1))).toEqual({ bytes: 32 });
  });

  it("is refused where parts are missing, are no model, or another one is named", async () => {
    const context = await modelContext();
    const resolved = (path: string) => errorOf(resolveModel(path, context, { download: false }));
    const pathOf = await partsIn(1, 3);
    expect(await resolved(pathOf(1))).toMatchObject({
      code: "MODEL_UNREADABLE",
      message: expect.stringContaining(`lacks ${nameOf(2)}`),
    });
    expect(await resolved(pathOf(3))).toMatchObject({
      code: "MODEL_UNREADABLE",
      hint: `name the first part: ${pathOf(1)}`,
    });
    await writeFile(pathOf(2), "<html>");
    expect(await resolved(pathOf(1))).toMatchObject({
      code: "MODEL_CORRUPT",
      message: expect.stringContaining(pathOf(2)),
    });
    const absent = await partsIn(2);
    expect((await resolved(absent(1))).message).toContain("does not exist");
  });
});
