import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import golden from "../golden/toy-m2m100/golden.json" with { type: "json" };
import { sluiceProgram } from "../sluice-program.ts";
import { engineContext } from "./llama-files.ts";
import { missingTransformers, toyFolder } from "./transformers-files.ts";

const missing = await missingTransformers();
const folder = mkdtempSync(join(tmpdir(), "sluice-onnx-run-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const cases = golden.cases.filter(
  ({ parameters: { max_new_tokens, num_beams } }) => max_new_tokens === 14 && num_beams === 4,
);
/** All six directions in turn, so that neighbours are of different pairs. */
const translations = cases[0]!.texts.flatMap((_, at) =>
  cases.map(({ source, target, texts, answers }) => ({
    row: { text: texts[at]!, from: source, to: target },
    wanted: answers[at]![0]!.text,
  })),
);

function run(job: object) {
  writeFileSync(join(folder, "job.json"), JSON.stringify(job));
  return spawnSync(process.execPath, [sluiceProgram, "run", "-c", "job.json"], {
    cwd: folder,
    env: { ...process.env, SLUICE_HOME: engineContext.homeDirectory },
    encoding: "utf8",
  });
}

const model = {
  engine: "transformers",
  task: "translation",
  name: join(toyFolder, "model"),
  srcLangColumn: "from",
  tgtLangColumn: "to",
  threads: 1,
};

describe("sluice run with engine transformers", () => {
  beforeEach((context) => context.skip(missing !== undefined, missing));

  it("translates rows without a prompt, each in its own direction, in input order", () => {
    expect(translations).toHaveLength(72);
    const rows = translations.map(({ row }, id) => ({ id, ...row }));
    const broken = { id: rows.length, text: "house", from: "en", to: "xx" };
    const lines = [...rows, broken].map((row) => JSON.stringify(row));
    writeFileSync(join(folder, "rows.jsonl"), `${lines.join("\n")}\n`);
    const { status, stderr } = run({
      input: { path: "rows.jsonl" },
      shard: { rows: 10 },
      model,
      generation: { numBeams: 4, maxNewTokens: 14 },
      output: { path: "out.jsonl", field: "said" },
    });
    expect(stderr).toContain("LANGUAGE_UNKNOWN");
    expect(status).toBe(1);
    const results = readFileSync(join(folder, "out.jsonl"), "utf8").trimEnd().split("\n");
    expect(results.map((line) => JSON.parse(line))).toEqual(
      translations.map(({ wanted }, id) => ({ ...rows[id], said: wanted })),
    );
  });

  it("takes the words of a prompt, and gives several answers as a list", () => {
    writeFileSync(join(folder, "names.jsonl"), '{"name":"house"}\n');
    const { status, stderr } = run({
      input: { path: "names.jsonl" },
      model: { ...model, srcLang: "en", tgtLang: "de" },
      prompt: { api: "completion", prompt: "the {{ name }}" },
      generation: { numBeams: 2, numReturnSequences: 2, maxNewTokens: 14 },
      output: { path: "names-out.jsonl" },
    });
    expect(status, stderr).toBe(0);
    const [row] = readFileSync(join(folder, "names-out.jsonl"), "utf8").trimEnd().split("\n");
    const { answer } = JSON.parse(row!) as { answer: string[] };
    expect(answer).toHaveLength(2);
    expect(answer[0]).toBe("houseen theen");
  });

  it("refuses while planning what could not be computed", () => {
    writeFileSync(join(folder, "names.jsonl"), '{"name":"house"}\n');
    const job = { input: { path: "names.jsonl" }, output: { path: "none.jsonl" } };
    const folderless = run({ ...job, model: { ...model, name: "./none" } });
    expect(folderless.stderr).toContain("MODEL_UNREADABLE");
    const task = { ...model, task: "feature-extraction" };
    const beams = run({ ...job, model: task, generation: { numBeams: 2 } });
    expect(beams.stderr).toContain("generation.numBeams");
    expect([folderless.status, beams.status]).toEqual([69, 64]);
  });
});
