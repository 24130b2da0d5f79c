import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runArguments } from "../../src/cli/run-target.ts";
import type { StoreOptions } from "../../src/data/s3/store-options.ts";
import { storageOpener } from "../../src/data/storage/open.ts";
import { engineContext } from "../engines/engine-context.ts";
import { carriedOut, preparedRun, scratchFolder } from "../run/whole-run.ts";
import { call } from "./call.ts";

describe("a run as arguments of a command", () => {
  const here = { workingDirectory: "/work" };
  const opening = (store: StoreOptions) => ({
    openStorage: storageOpener({ ...engineContext(), store, spoolDirectory: "/work" }),
  });
  const [nowhere, minio] = [
    opening({}),
    opening({ endpoint: "http://minio:9000", conditional: "none" }),
  ];

  it("is short, quoted, and no option", () => {
    expect(runArguments("/work/out", nowhere, here)).toBe("out");
    expect(runArguments("/work/my out", minio, here)).toBe("'my out'");
    expect(runArguments("/work/-out", nowhere, here)).toBe("./-out");
  });

  it("has the options that find its store", () => {
    expect(runArguments("s3://bucket/out", minio, here)).toBe(
      "s3://bucket/out --store.endpoint http://minio:9000 --store.conditional none",
    );
    expect(runArguments("s3://bucket/out", nowhere, here)).toBe("s3://bucket/out");
  });
});

describe("a run by a file of JSON", () => {
  it("is that of a job file, unless results lie there", async () => {
    const run = preparedRun(scratchFolder(), undefined, { maxFailedRows: 4 });
    await carriedOut(run);
    const input = { path: "rows.jsonl", id: "id" };
    const job = { input, model: { engine: "fake" }, prompt: "Say {{ text }}" };
    writeFileSync(join(run.folder, "job.json"), JSON.stringify(job));
    const found = await call(run.folder, "status", "job.json", "--json");
    expect(JSON.parse(found.stdout)).toMatchObject({ location: run.location.directory });
    writeFileSync(join(run.folder, "list.json"), "[]");
    const list = await call(run.folder, "status", "list.json");
    expect(list.stderr).toContain("error NOT_A_RUN");
    rmSync(join(run.folder, "job.json"));
    const merged = preparedRun(run.folder, undefined, { maxFailedRows: 4 }, "job.json");
    await carriedOut(merged);
    const results = await call(run.folder, "status", "job.json", "--json");
    expect(JSON.parse(results.stdout)).toMatchObject({ location: merged.location.directory });
  });
});
