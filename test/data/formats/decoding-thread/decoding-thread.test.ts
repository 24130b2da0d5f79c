import { describe, expect, it } from "vitest";
import { DecodingThread } from "../../../../src/data/formats/decoding-thread/decoding-thread.ts";
import { decodedInThread } from "../../../../src/data/formats/decoding-thread/thread-format.ts";
import { parquetFormat } from "../../../../src/data/formats/parquet/parquet.ts";
import type { RowFormat } from "../../../../src/data/formats/row-format.ts";
import { encodedFile } from "../parquet/reading.ts";
import { readerOf, scanAll } from "../reading.ts";
import { crowdedParquet, endlessParquet } from "./hostile-parquet.ts";

const limits = { maxStepMs: 3000, maxHeapMegabytes: 64, idleMs: 60_000 };

function formatWithin(own = limits): RowFormat {
  const thread = new DecodingThread(own);
  return decodedInThread(parquetFormat(), async () => thread);
}

async function* textsOf(format: RowFormat, content: Buffer) {
  const [slice] = await scanAll(format, content, { everyRows: 1e6 });
  for await (const rows of format.read(readerOf(content), slice!, 0, { maxLineBytes: 1e6 })) {
    yield* rows.map(({ raw }) => raw);
  }
}

const blamed = (detail: string) => ({
  code: "INPUT_UNREADABLE",
  message: expect.stringContaining(`row group 1, column text: it takes more than ${detail}`),
  place: { file: "in" },
});

describe("the thread that decodes", () => {
  const lines = Array.from({ length: 2000 }, (_, id) => JSON.stringify({ id, text: `row ${id}` }));

  it("is ended where a page never ends, and the page named", async () => {
    const texts = Array.fromAsync(textsOf(formatWithin(), endlessParquet()));
    await expect(texts).rejects.toMatchObject(blamed("3 s to decode"));
  });

  it("is ended where a page takes all memory", async () => {
    const texts = Array.fromAsync(textsOf(formatWithin(), crowdedParquet()));
    await expect(texts).rejects.toMatchObject(blamed("64 MB of memory to decode"));
  });

  it("begins anew for the files that are not to blame: each row comes once", async () => {
    const format = formatWithin();
    const content = await encodedFile(lines);
    const texts = textsOf(format, content);
    const read: string[] = [];
    for (let count = 0; count < 600; count++) read.push((await texts.next()).value!);
    for (const hostile of [crowdedParquet(), endlessParquet()]) {
      await expect(Array.fromAsync(textsOf(format, hostile))).rejects.toMatchObject(blamed(""));
    }
    for await (const text of texts) read.push(text);
    expect(read).toEqual(lines);
  });

  it("is left in the middle, and used again after it ended itself", async () => {
    const format = formatWithin({ ...limits, idleMs: 1 });
    const content = await encodedFile(lines);
    for (let round = 0; round < 3; round++) {
      for await (const text of textsOf(format, content)) {
        expect(text).toBe(lines[0]);
        break;
      }
      await new Promise((resolve) => setTimeout(resolve, 200 * round));
    }
    expect(await Array.fromAsync(textsOf(format, content))).toEqual(lines);
  });
});
