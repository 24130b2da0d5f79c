import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import { callHere } from "../cli/call.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { jsonLinesIn } from "./json-lines.ts";

/** A folder with these rows, and the packed program in it. */
function folderOf(rows: readonly object[]) {
  const folder = scratchFolder();
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
  write("rows.jsonl", rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  const call = (...parameters: string[]) => runSluice([...parameters, "--output", "out"], folder);
  /** For what starts no worker, in this process. */
  const look = (...parameters: string[]) => callHere([...parameters, "--output", "out"], folder);
  const asked = (prompt: string) => {
    return ["--input", "rows.jsonl", "--model", "fake", "--prompt", prompt];
  };
  const ask = (prompt: string) => call("run", ...asked(prompt));
  return { folder, write, call, look, asked, ask, output: join(folder, "out") };
}

const many = (count: number) =>
  Array.from({ length: count }, (_, id) => ({ id, abstract: `text ${id}` }));

describe("a prompt that fits no row", () => {
  it("stops before anything is asked, with the nearest field, and a mended one runs", async () => {
    const { look, asked, ask, output } = folderOf(many(3000));
    for (const command of ["plan", "run"]) {
      const { code, stderr } = await look(command, ...asked("Sum up {{ abstrct }}"));
      expect(code).toBe(64);
      expect(stderr).toContain("none of the first 1,000 rows has abstrct");
      expect(stderr).toContain("did you mean abstract?");
      expect(stderr).toMatch(/rows\.jsonl:1, field abstrct/);
    }
    expect(existsSync(join(output, "_sluice/plan.json"))).toBe(false);
    expect((await ask("Sum up {{ abstract }}")).code).toBe(0);
  });

  it("runs where some rows have the field, and where the template guards it", async () => {
    const few = folderOf([...many(900), { note: "late" }, ...many(200)]);
    expect((await few.ask("Say {{ note }}")).code).toBe(1);
    expect(jsonLinesIn(few.output)).toHaveLength(1);
    const guarded = folderOf(many(3));
    expect((await guarded.ask('Say {{ note | default("nothing") }}')).code).toBe(0);
  });

  it("is told for a table, for the list of forEach, and for each of several", async () => {
    const { write, call, look, asked } = folderOf(many(20));
    await call("run", "--input", "rows.jsonl", "--model", "fake", "--prompt", "a");
    const table = ["--output.format", "parquet", "--overwrite"];
    await call("run", "--input", "rows.jsonl", "--model", "fake", "--prompt", "a", ...table);
    const parquet = await look(
      ...["run", "--input", "out/*.parquet", "--model", "fake", "--prompt", "{{ Abstrakt }}"],
      "--fork",
    );
    expect(parquet.stderr).toContain("none of the first 20 rows has Abstrakt");
    expect(parquet.stderr).toContain("did you mean abstract?");
    const job = (prompts: object) =>
      JSON.stringify({ input: "rows.jsonl", model: { engine: "fake" }, prompts });
    write("list.json", job({ steps: { forEach: "abstract", prompt: "{{ item }}" } }));
    const list = await look("run", "-c", "list.json", "--fork");
    expect(list.stderr).toContain("prompts.steps.forEach: it gives a text, not a list");
    write("two.json", job({ good: "{{ abstract }}", bad: "{{ title }}" }));
    const two = await look("run", "-c", "two.json", "--fork");
    expect(two.stderr).toContain("has title: prompts.bad uses it unguarded");
    expect([parquet.code, list.code, two.code]).toEqual([64, 64, 64]);
    expect((await look("plan", ...asked("{{ abstract }}"))).code).toBe(0);
  });

  it("names the dataset that it is for", async () => {
    const { write, look } = folderOf(many(5));
    write("right.jsonl", '{"instruction": "Say a", "input": "", "output": ""}\n');
    const { code, stderr } = await look(
      ...["run", "--model", "fake", "--dataset", "path=right.jsonl,type=alpaca"],
      ...["--dataset", "path=rows.jsonl,type=alpaca"],
    );
    expect(code, stderr).toBe(64);
    expect(stderr).toContain("none of the first 5 rows has instruction");
    expect(stderr).toContain("rows.jsonl:1");
  });

  it("stops a stage of a pipeline, with rows of the input and of other stages", async () => {
    const { folder, write, call, look, output } = folderOf(many(5000));
    write("stage.mjs", "export default (row) => ({ ...row, words: row.abstract.split(' ') });");
    const generate = { kind: "generate", model: { engine: "fake" }, prompt: "{{ wrods }}" };
    const pipeline = (stages: object[]) =>
      JSON.stringify({ input: "rows.jsonl", model: { engine: "pipeline", stages } });
    write("first.json", pipeline([generate]));
    const first = await look("run", "-c", "first.json");
    expect(first.stderr).toContain("none of the first 1,000 rows has wrods");
    expect(existsSync(join(folder, "out/_sluice/plan.json"))).toBe(false);
    write("later.json", pipeline([{ kind: "map", module: "stage.mjs" }, generate]));
    const later = await call("run", "-c", "later.json");
    expect(later.stderr).toContain("none of the first 1,000 rows has wrods");
    expect(later.stderr).toContain("did you mean words?");
    expect([first.code, later.code]).toEqual([64, 64]);
    expect(jsonLinesIn(join(output, "_dead-letters")).length).toBeLessThan(3000);
  });
});
