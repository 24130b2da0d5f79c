import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkGgufFile } from "../../../src/engines/weights/gguf-file.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-gguf-"));
});
afterAll(() => rm(folder, { recursive: true }));

function header(version: number, tensors: number): Buffer {
  const bytes = Buffer.alloc(32);
  bytes.write("GGUF");
  bytes.writeUInt32LE(version, 4);
  bytes.writeBigUInt64LE(BigInt(tensors), 8);
  return bytes;
}

async function check(content: Buffer | undefined) {
  const path = join(folder, "model.gguf");
  await rm(path, { force: true });
  if (content) await writeFile(path, content);
  return checkGgufFile(path);
}

describe("checkGgufFile", () => {
  it("takes the versions it knows", async () => {
    expect(await check(header(3, 7))).toEqual({ bytes: 32 });
  });

  it.each([
    ["an absent file", undefined, "MODEL_UNREADABLE", /ENOENT/],
    ["an empty file", Buffer.alloc(0), "MODEL_CORRUPT", /0 bytes/],
    ["another format", Buffer.from("PK".padEnd(40)), "MODEL_CORRUPT", /does not begin/],
    ["an unknown version", header(9, 7), "MODEL_CORRUPT", /version 9/],
    ["a file without tensors", header(3, 0), "MODEL_CORRUPT", /no tensors/],
  ])("names %s", async (_name, content, code, message) => {
    const failed = check(content);
    await expect(failed).rejects.toMatchObject({ code });
    await expect(failed).rejects.toThrow(message);
  });
});
