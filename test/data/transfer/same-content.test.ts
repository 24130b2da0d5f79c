import { createHash } from "node:crypto";
import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { OpenFile } from "../../../src/data/open-files.ts";
import { bytesReader } from "../../../src/data/storage/bytes-reader.ts";
import { hasSameContent } from "../../../src/data/transfer/same-content.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { temporaryFolder } from "../../engines/models/context.ts";
import { numberedText } from "../sources/web-server.ts";

const mebibyte = 1024 * 1024;
const content = numberedText(17 * mebibyte + 5);
const md5 = (data: Uint8Array) => createHash("md5").update(data).digest();

/** The ETag of an object that was uploaded by parts. */
function tagOfParts(data: Buffer, partBytes: number): string {
  const parts: Buffer[] = [];
  for (let at = 0; at < data.length; at += partBytes) {
    parts.push(md5(data.subarray(at, at + partBytes)));
  }
  return `"${md5(Buffer.concat(parts)).toString("hex")}-${parts.length}"`;
}

const noReading: OpenFile = () => Promise.reject(new Error("it was read"));
const reading =
  (data: Uint8Array): OpenFile =>
  async () =>
    bytesReader(data);

async function local(data: Uint8Array): Promise<string> {
  const path = join(await temporaryFolder(), "file");
  await writeFile(path, data);
  return path;
}

const far = (etag?: string, bytes = content.length) => ({
  ...{ path: "s3://b/k", bytes, modifiedMs: 0 },
  ...(etag !== undefined && { etag }),
});

describe("hasSameContent", () => {
  it("computes what stores say of a content, and fetches nothing then", async () => {
    const path = await local(content);
    const blob = createHash("sha1").update(`blob ${content.length}\0`).update(content);
    const tags = [
      `"${md5(content).toString("hex")}"`,
      sha256Hex(content),
      `W/"${blob.digest("hex")}"`,
      ...[5, 8, 16].map((size) => tagOfParts(content, size * mebibyte)),
    ];
    for (const tag of tags) expect(await hasSameContent(path, far(tag), noReading)).toBe(true);
  });

  it("reads and compares where nothing can be computed, or something else comes out", async () => {
    const path = await local(content);
    const other = Buffer.from(content);
    other[other.length - 1]! ^= 1;
    for (const tag of [undefined, '"opaque"', `"${"0".repeat(32)}"`, tagOfParts(content, 7e6)]) {
      await expect(hasSameContent(path, far(tag), noReading)).rejects.toThrow("it was read");
      expect(await hasSameContent(path, far(tag), reading(content))).toBe(true);
      expect(await hasSameContent(path, far(tag), reading(other))).toBe(false);
    }
  });

  it("looks at nothing else where sizes differ", async () => {
    const path = await local(content);
    expect(await hasSameContent(path, far(undefined, 4), noReading)).toBe(false);
  });

  it("names a file that cannot be read", async () => {
    const folder = await temporaryFolder();
    const { size } = await stat(folder);
    await expect(
      hasSameContent(folder, far(undefined, size), reading(content)),
    ).rejects.toMatchObject({ code: "INPUT_UNREADABLE", place: { file: folder } });
  });

  it("takes empty files for the same", async () => {
    const path = await local(Buffer.alloc(0));
    expect(await hasSameContent(path, far(undefined, 0), reading(Buffer.alloc(0)))).toBe(true);
  });
});
