import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { formatFor } from "../../../src/data/formats/registry.ts";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { columnsOfFiles } from "../../../src/run/output/planned-columns.ts";

async function namesOf(
  contents: Record<string, string | Uint8Array>,
  kept?: readonly string[],
): Promise<string[] | undefined> {
  const storage = memoryStorage();
  for (const [path, content] of Object.entries(contents)) {
    await storage.replace(path, Buffer.from(content as string));
  }
  const files = Object.keys(contents).map((path) => ({
    ...{ path, bytes: 0, modifiedMs: 0, format: formatFor(path).name, source: 0 },
  }));
  const columns = await columnsOfFiles(
    files,
    () => kept,
    (path) => storage.open(path),
  );
  return columns?.map(({ name }) => name);
}

describe("columnsOfFiles", () => {
  it("joins what files say, compressed ones among them", async () => {
    const contents = { "a.csv": "id,text\n1,x\n", "b.csv.gz": gzipSync("note,id\ny,2\n") };
    expect(await namesOf(contents)).toEqual(["id", "text", "note"]);
    expect(await namesOf(contents, ["note", "id"])).toEqual(["id", "note"]);
  });

  it("reads a long header of a compressed file to its end", async () => {
    const names = Array.from({ length: 60_000 }, (_, at) => sha256Hex(`column ${at}`));
    const found = await namesOf({ "a.csv.gz": gzipSync(`${names.join(",")}\n`) });
    expect(found).toHaveLength(names.length);
  });

  it("says nothing where one of them says nothing", async () => {
    expect(await namesOf({ "a.csv": "id\n1\n", "b.jsonl": '{"id":1}\n' })).toBe(undefined);
    expect(await namesOf({})).toBe(undefined);
  });
});
