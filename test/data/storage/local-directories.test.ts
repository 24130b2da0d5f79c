import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { LocalDirectories } from "../../../src/data/storage/local-directories.ts";

describe("LocalDirectories", () => {
  it("makes paths that share parents while others make them too", async () => {
    const root = await mkdtemp(join(tmpdir(), "sluice-directories-"));
    try {
      for (let round = 0; round < 30; round++) {
        const parent = join(root, `${round}`, "a", "b");
        // One each, as of processes of their own.
        const making = Array.from({ length: 8 }, (_, at) =>
          new LocalDirectories(false).make(join(parent, `${at}`, "c")),
        );
        const results = await Promise.allSettled(making);
        expect(results.filter(({ status }) => status === "rejected")).toEqual([]);
      }
    } finally {
      await rm(root, { recursive: true });
    }
  });

  it("gives up below a directory that takes no names", async (context) => {
    context.skip(process.platform !== "linux", "there is no /proc here");
    await expect(new LocalDirectories(false).make("/proc/sluice/out")).rejects.toThrow("ENOENT");
  });
});
