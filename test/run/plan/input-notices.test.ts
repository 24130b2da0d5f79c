import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { inputNotices } from "../../../src/run/plan/notices.ts";
import type { Plan } from "../../../src/run/plan/plan.ts";
import { scanInput } from "../../../src/run/plan/scan-input.ts";
import { jobOf, plannedRun, rowsOf } from "../run-fixture.ts";

/** What is said of files that have so many rows each, cut into tasks of 4. */
async function noticesFor(rowsByPath: Record<string, number>): Promise<string[]> {
  const inputs = memoryStorage();
  const files = [];
  for (const [path, count] of Object.entries(rowsByPath)) {
    const text = Buffer.from(rowsOf(count).join("\n"));
    await inputs.replace(path, path.endsWith(".gz") ? gzipSync(text) : text);
    files.push({ path, bytes: 1, modifiedMs: 0, format: "jsonl", source: 0 });
  }
  const found = { files, bytes: 1, digest: "", modifiedDigest: "" };
  const openFile = (path: string) => inputs.open(path);
  const storage = memoryStorage();
  const options = { storage, job: jobOf(), seed: 1, workers: 1, uniqueId: "x", onEvent() {} };
  const { input } = await scanInput(found, { ...options, openFile }, 4);
  const { plan } = await plannedRun(rowsOf(1));
  return inputNotices({ ...plan, input } as Plan);
}

describe("inputNotices", () => {
  it("says that compressed files lie in one task each, and how large that is", async () => {
    expect(await noticesFor({ "a.jsonl.gz": 3 })).toEqual([
      "1 file is compressed or of another encoding, so that it cannot be cut: it is one task",
    ]);
    expect(await noticesFor({ "a.jsonl.gz": 3, "b.jsonl.gz": 1500, "c.jsonl": 5 })).toEqual([
      "2 files are compressed or of another encoding, so that they cannot be cut: each lies in one task, " +
        "the largest of 1,500 rows; more files share work out better",
    ]);
  });

  it("is silent where files can be cut", async () => {
    expect(await noticesFor({ "a.jsonl": 30 })).toEqual([]);
  });
});
