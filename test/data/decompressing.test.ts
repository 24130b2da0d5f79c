import { brotliCompressSync, gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { compressionOf, decompressing } from "../../src/data/decompressing.ts";
import { readerOf } from "./formats/reading.ts";

const text = Array.from({ length: 60_000 }, (_, n) => `line ${n * 7919} of it\n`).join("");
const compressors = { gz: gzipSync, zst: zstdCompressSync, br: brotliCompressSync };

function contentOf(ending: string, bytes: Uint8Array) {
  const path = `/data/rows.jsonl.${ending}`;
  return decompressing(readerOf(bytes), path, compressionOf(path)!);
}

async function wholeOf(ending: string, bytes: Uint8Array): Promise<string> {
  const content = contentOf(ending, bytes);
  try {
    return Buffer.from(await content.read(0, 1e9)).toString();
  } finally {
    await content.close();
  }
}

describe("compressionOf", () => {
  it("goes by the last ending", () => {
    expect(compressionOf("/a.gz/x.jsonl")).toBe(undefined);
    expect(compressionOf("X.CSV.GZ")?.name).toBe("gzip");
    expect(compressionOf("https://there/x.json.zst?token=a.gz")?.name).toBe("zstd");
  });
});

describe.each(Object.entries(compressors))("decompressing %s", (ending, compress) => {
  const whole = compress(Buffer.from(text));

  it("reads forward, and anew from further back", async () => {
    const content = contentOf(ending, whole);
    const at = async (offset: number, length: number) =>
      Buffer.from(await content.read(offset, length)).toString();
    expect(content.bytes).toBe(Number.POSITIVE_INFINITY);
    expect(await at(0, 10)).toBe(text.slice(0, 10));
    expect(await at(700_000, 20)).toBe(text.slice(700_000, 700_020));
    expect(await at(5, 300_000)).toBe(text.slice(5, 300_005));
    expect(await at(text.length - 3, 10)).toBe(text.slice(-3));
    expect(await at(text.length + 5, 10)).toBe("");
    expect(await Promise.all([at(0, 4), at(4, 4)])).toEqual([text.slice(0, 4), text.slice(4, 8)]);
    await content.close();
  });

  it("names the place where a file is cut off, and what came before", async () => {
    for (const bytes of [Math.floor(whole.length / 2), whole.length - 1, 0]) {
      await expect(wholeOf(ending, whole.subarray(0, bytes))).rejects.toMatchObject({
        code: "INPUT_UNREADABLE",
        message: expect.stringMatching(/is cut off at byte \d+, after \d+ bytes of content/),
        place: { file: `/data/rows.jsonl.${ending}` },
      });
    }
  });

  it("refuses what is no such file, and what follows its end", async () => {
    for (const bytes of [
      Buffer.from("not compressed"),
      Buffer.concat([whole, Buffer.from("x y z")]),
    ]) {
      await expect(wholeOf(ending, bytes)).rejects.toMatchObject({
        code: "INPUT_UNREADABLE",
        message: expect.stringMatching(/is damaged near byte|bytes follow the end/),
      });
    }
  });

  it("reads an empty content", async () => {
    expect(await wholeOf(ending, compress(Buffer.alloc(0)))).toBe("");
  });
});

describe("decompressing", () => {
  it.each(["gz", "zst"] as const)(
    "reads %s files that were appended to one another",
    async (ending) => {
      const compress = compressors[ending];
      const parts = ["one\n", "", "two\n", text, "three\n"];
      const bytes = Buffer.concat(parts.map((part) => compress(Buffer.from(part))));
      expect(await wholeOf(ending, bytes)).toBe(parts.join(""));
    },
  );

  it("passes by what zstd lets programs put between frames", async () => {
    const skipped = Buffer.concat([Buffer.from("502a4d1804000000", "hex"), Buffer.from("abcd")]);
    const frame = (part: string) => zstdCompressSync(Buffer.from(part));
    const bytes = Buffer.concat([skipped, frame("one\n"), skipped, frame("two\n"), skipped]);
    expect(await wholeOf("zst", bytes)).toBe("one\ntwo\n");
  });

  it("hands on the reader's own faults, and stops where it is left", async () => {
    const reader = {
      ...readerOf(gzipSync(Buffer.from(text))),
      read: () => Promise.reject(new Error("the disk is gone")),
    };
    const content = decompressing(reader, "x.gz", compressionOf("x.gz")!);
    await expect(content.read(0, 10)).rejects.toThrow("the disk is gone");
    await content.close();
  });
});
