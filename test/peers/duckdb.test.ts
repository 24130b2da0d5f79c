import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { findPeer } from "../../bench/peers.ts";
import { runCommandLine } from "../integration/dataset-program.ts";
import { blocksOf } from "../meta/markdown.ts";
import { root } from "../meta/source-tree.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-duckdb-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What the test needs of DuckDB. */
interface Connection {
  run(sql: string): Promise<unknown>;
  runAndReadAll(sql: string): Promise<{ getRowsJson(): unknown[][] }>;
  closeSync(): void;
}

async function connected(peer: string): Promise<Connection> {
  const { DuckDBInstance } = createRequire(join(peer, "package.json"))("@duckdb/node-api");
  const instance = await DuckDBInstance.create(":memory:");
  return instance.connect();
}

it("the page of DuckDB does what it says", async (context) => {
  const peer = findPeer("duckdb");
  context.skip(peer === undefined, "DuckDB is not here: npm run peers -- duckdb");
  const path = "docs/duckdb.md";
  const database = await connected(peer!);
  const before = process.cwd();
  try {
    // SQL names files as the page does, from the folder.
    process.chdir(folder);
    for (const { language, text, task } of blocksOf({
      path,
      text: readFileSync(join(root, path), "utf8"),
    })) {
      if (task && "file" in task) writeFileSync(join(folder, task.file), text);
      else if (language === "ts") await runBlock(text);
      else if (language === "sql" && !text.includes("_dead-letters")) await database.run(text);
    }
    const rowsOf = async (sql: string) => (await database.runAndReadAll(sql)).getRowsJson();
    // Equal texts were asked about once.
    expect(await rowsOf("SELECT name, reviews FROM counts")).toEqual([
      ["Kettle", "2"],
      ["Jacket", "1"],
    ]);
    const labelled = await rowsOf("SELECT review, praise FROM labelled");
    expect(labelled.map(([review]) => review)).toEqual(["1", "2", "3", "4"]);
    expect(labelled[2]![1]).toBe(labelled[3]![1]);
  } finally {
    process.chdir(before);
    database.closeSync();
  }
});

it("counts failed rows by their codes", async (context) => {
  const peer = findPeer("duckdb");
  context.skip(peer === undefined, "DuckDB is not here: npm run peers -- duckdb");
  await runBlock(`import { dataset } from "sluice";
    await dataset.from([{ id: 1 }, { id: 2 }, { id: 3 }]).map(({ id }) => {
      if (id > 1) throw new Error("no good");
      return { id };
    }).run({ output: ${JSON.stringify(join(folder, "failing"))} });`);
  const database = await connected(peer!);
  const letters = join(folder, "failing/_dead-letters/*.jsonl");
  const found = await database.runAndReadAll(
    `SELECT code, count(*) FROM '${letters}' GROUP BY code`,
  );
  expect(found.getRowsJson()).toEqual([["STAGE_FAILED", "2"]]);
  database.closeSync();
});

async function runBlock(text: string): Promise<void> {
  const file = join(folder, "program.ts");
  writeFileSync(
    file,
    text.replaceAll('"zod"', JSON.stringify(join(root, "node_modules/zod/index.js"))),
  );
  const { code, stderr } = await runCommandLine(file);
  expect(code, stderr).toBe(0);
}
