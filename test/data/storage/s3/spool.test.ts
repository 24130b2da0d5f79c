import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  segmentOf,
  segmentPath,
  uploadOf,
  uploadPath,
  wholePath,
} from "../../../../src/data/storage/s3/segment-names.ts";
import { FileSpool } from "../../../../src/data/storage/s3/spool.ts";

function newSpool() {
  const folder = mkdtempSync(join(tmpdir(), "sluice-spool-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return { folder, spool: new FileSpool(join(folder, "root")) };
}

async function append(spool: FileSpool, path: string, number: number, text: string) {
  const appender = await spool.create(path, number);
  await appender.append(Buffer.from(text));
  await appender.sync();
  await appender.close();
}

describe("FileSpool", () => {
  it("keeps segments until they are removed, and then no folder", async () => {
    const { folder, spool } = newSpool();
    await append(spool, "a/b", 10, "ten");
    await append(spool, "a/b", 9, "nine");
    expect(await spool.numbers("a/b")).toEqual([9, 10]);
    expect(await spool.numbers("a/c")).toEqual([]);
    const reader = await spool.open("a/b", 9);
    await spool.remove("a/b", 9);
    expect(Buffer.from(await reader!.read(0, 10)).toString()).toBe("nine");
    await reader!.close();
    expect(await spool.open("a/b", 9)).toBe(undefined);
    expect(await spool.read("a/b", 9)).toBe(undefined);
    await spool.tidy("a/b");
    expect(await spool.numbers("a/b")).toEqual([10]);
    await spool.remove("a/b", 10);
    await spool.tidy("a/b");
    expect(readdirSync(folder)).toEqual([]);
  });

  it("never writes over a segment", async () => {
    const { spool } = newSpool();
    await append(spool, "a", 1, "one");
    await expect(spool.create("a", 1)).rejects.toMatchObject({ code: "STORE_FAILED" });
  });

  it("looks nowhere else, whatever a key says", async () => {
    const { spool } = newSpool();
    await append(spool, "a", 1, "one");
    expect(await spool.numbers("b/../a")).toEqual([]);
  });
});

describe("names of segments", () => {
  it("lead back to the path, and come before its neighbours", () => {
    const segment = segmentPath("log/a.jsonl", 7);
    expect(segment).toBe("log/a.jsonl!/00000007");
    expect(segmentOf(segment)).toEqual({ path: "log/a.jsonl", number: 7 });
    expect(wholePath(segment)).toBe("log/a.jsonl");
    expect(wholePath("log/a.jsonl")).toBe("log/a.jsonl");
    expect(segmentOf("log/00000007")).toBe(undefined);
    expect([`log/a.jsonl-b`, segment, "log/a.jsonl"].sort()[1]).toBe(segment);
  });

  it("of uploads lead back to path and id", () => {
    const upload = { path: "a/b", uploadId: "x-1" };
    expect(uploadOf(uploadPath(upload.path, upload.uploadId))).toEqual(upload);
    expect(uploadOf("a/b")).toBe(undefined);
  });
});
