import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { inputStores } from "../../src/data/sources/open.ts";
import { storageOpener } from "../../src/data/storage/open.ts";
import { limits } from "../../src/foundation/limits.ts";
import { type ChunksRequest, writeChunks } from "../../src/run/chunks/write-chunks.ts";
import { missingS3Server, S3Server } from "../s3-server.ts";

const { maxLineBytes } = limits;

it("cuts into an object store and out of it, and its lists are inputs there", async (context) => {
  context.skip(missingS3Server !== undefined, missingS3Server);
  const folder = mkdtempSync(join(tmpdir(), "sluice-s3-chunks-"));
  const server = await S3Server.start();
  try {
    const lines = Array.from({ length: 103 }, (_, id) => `{"id":${id},"text":"é ${id}"}\n`);
    writeFileSync(join(folder, "in.jsonl"), lines.join(""));
    const openStorage = storageOpener(server.context());
    const inputs = inputStores({ ...server.context(), temporaryDirectory: folder });
    const cut = (path: string, changes: Partial<ChunksRequest>) =>
      writeChunks(
        {
          sources: [{ path, list: path.endsWith(".txt"), maxLineBytes }],
          baseDirectory: folder,
          output: server.location("chunks"),
          size: { chunks: 20 },
          workers: 16,
          format: { name: "jsonl" },
          maxLineBytes,
          overwrite: false,
          ...changes,
        },
        { openStorage, inputs },
      );
    const far = await cut("in.jsonl", {});
    expect(far).toMatchObject({ isNew: true, chunks: 20, rows: 103, workers: 16 });
    expect(far.metadata).toBe(server.location("chunks/metadata.txt"));
    expect(await cut("in.jsonl", {})).toEqual({ ...far, isNew: false });
    await expect(cut("in.jsonl", { workers: 4 })).rejects.toMatchObject({
      code: "OUTPUT_OCCUPIED",
    });

    const one = { size: { chunks: 1 }, workers: 0 };
    await cut(far.metadata, { ...one, output: join(folder, "back") });
    const share = server.location("chunks/workers/15.txt");
    await cut(share, { ...one, output: server.location("share") });
    const read = async (location: string) =>
      Buffer.from(await openStorage(location).read("part_0.jsonl")).toString();
    expect(await read(join(folder, "back"))).toBe(lines.join(""));
    expect(await read(server.location("share"))).toBe(lines.slice(-5).join(""));

    await cut("in.jsonl", { size: { chunks: 2 }, workers: 0, overwrite: true });
    const left: string[] = [];
    for await (const { path } of openStorage(server.location("chunks")).list("")) left.push(path);
    expect(left).toEqual(["_chunks.json", "metadata.txt", "part_0.jsonl", "part_1.jsonl"]);
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
