import { mkdirSync, writeFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { localSource } from "../../../src/data/sources/local.ts";
import { localStorage } from "../../../src/data/storage/local.ts";
import { scratchFolder } from "../../run/whole-run.ts";

describe("files of this machine", () => {
  it("are listed while others come and go beside them", async () => {
    const folder = scratchFolder();
    mkdirSync(join(folder, "kept"));
    for (const name of ["a", "b"]) writeFileSync(join(folder, "kept", name), name);
    const source = localSource(localStorage("/"));
    let isOver = false;
    // Its name comes before those of the others, as that of a folder of drafts does.
    const churn = async (at: number) => {
      const own = join(folder, `.drafts/${at}`);
      while (!isOver) {
        await mkdir(own, { recursive: true });
        await writeFile(join(own, "file"), "");
        await rm(own, { recursive: true });
      }
    };
    const churning = [0, 1, 2, 3].map(churn);
    try {
      for (let round = 0; round < 500; round++) {
        const names: string[] = [];
        for await (const { path } of source.list!(folder))
          names.push(path.slice(folder.length + 1));
        expect(names.filter((name) => !name.startsWith("."))).toEqual(["kept/a", "kept/b"]);
      }
    } finally {
      isOver = true;
      await Promise.all(churning);
    }
  });
});
