import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  edgesOf,
  filesUnder,
  lineAt,
  root,
  type SourceFile,
  sourceFiles,
  walk,
} from "./source-tree.ts";

/** From this many lines of code on, a file of src needs a test that names it. */
const minCodeLines = 60;
const mirrored = ["src/foundation", "src/data", "src/prompt", "src/engines", "src/run"];

/** Files that are tested through others, each with where. */
const testedElsewhere: Record<string, string> = {
  "src/data/column-merge.ts": "test/data/columns.test.ts",
  "src/data/formats/apart/call.ts": "test/data/formats/apart/apart.test.ts",
  "src/data/formats/apart/thread-main.ts": "test/data/formats/apart/apart.test.ts",
  "src/data/formats/arrow/library.ts": "test/data/formats/arrow/arrow.test.ts",
  "src/data/formats/arrow/read.ts": "test/data/formats/arrow/arrow.test.ts",
  "src/data/formats/arrow/table.ts": "test/data/formats/arrow/arrow.test.ts",
  "src/data/formats/arrow/whole-batch.ts": "test/data/formats/arrow/arrow.test.ts",
  "src/data/formats/parquet/carried-rows.ts": "test/data/formats/parquet/carried-groups.test.ts",
  "src/data/formats/parquet/chunk-stream.ts": "test/data/formats/parquet/carried-groups.test.ts",
  "src/data/formats/parquet/read.ts": "test/data/formats/parquet/parquet.test.ts",
  "src/data/formats/parquet/copied-chunk.ts": "test/data/formats/parquet/carried-groups.test.ts",
  "src/data/formats/parquet/group-bytes.ts": "test/data/formats/parquet/parquet.test.ts",
  "src/data/formats/parquet/group-rows.ts": "test/data/formats/parquet/parquet.test.ts",
  "src/data/formats/parquet/leaf-pages.ts": "test/data/formats/parquet/parquet.test.ts",
  "src/data/formats/parquet/leaf-values.ts": "test/data/formats/parquet/parquet.test.ts",
  "src/data/formats/parquet/table.ts": "test/data/formats/parquet/parquet.test.ts",
  "src/data/formats/parquet/written-columns.ts": "test/data/formats/parquet/encoder.test.ts",
  "src/data/formats/parquet/written-schema.ts": "test/data/formats/parquet/encoder.test.ts",
  "src/data/formats/parquet/written-values.ts": "test/data/formats/parquet/encoder.test.ts",
  "src/data/formats/csv/header.ts": "test/data/formats/csv/csv.test.ts",
  "src/data/formats/csv/record-reader.ts": "test/data/formats/csv/csv.test.ts",
  "src/data/formats/csv/record-rows.ts": "test/data/formats/csv/csv.test.ts",
  "src/data/formats/csv/record-scanner.ts": "test/data/formats/csv/csv.test.ts",
  "src/data/formats/json-elements.ts": "test/data/formats, through the json format",
  "src/data/formats/line-read.ts": "test/data/formats, through jsonl and text",
  "src/data/formats/line-scan.ts": "test/data/formats, through jsonl and text",
  "src/data/formats/table-rows.ts": "test/data/formats, through parquet and arrow",
  "src/data/formats/value-writers.ts": "test/data/formats, through parquet and arrow",
  "src/data/formats/parse-row.ts": "test/data/formats, through jsonl and csv",
  "src/data/sources/http-file.ts": "test/data/sources/https.test.ts",
  "src/data/sources/listed.ts": "test/data/sources/hugging-face.test.ts",
  "src/data/sources/local.ts": "test/data/inputs.test.ts",
  "src/data/sources/spools.ts": "test/data/sources/https.test.ts",
  "src/data/s3/sdk-requests.ts": "test/integration/s3-faults.test.ts",
  "src/data/storage/local-files.ts": "test/data/storage.test.ts, by the conformance suite",
  "src/data/storage/s3/segments.ts": "test/data/storage/s3/s3-storage.test.ts",
  "src/engines/pipeline/batched-stage.ts": "test/engines/pipeline/engine.test.ts",
  "src/engines/pipeline/hosted-stages.ts": "test/engines/pipeline/engine.test.ts",
  "src/engines/pipeline/open-stages.ts": "test/engines/pipeline/engine.test.ts",
  "src/engines/pipeline/stage-code.ts": "test/engines/pipeline/engine.test.ts",
  "src/engines/transformers/decode/sequence-steps.ts": "test/integration/transformers.test.ts",
  "src/engines/transformers/hosted-transformers.ts": "test/integration/transformers.test.ts",
  "src/engines/transformers/open-task.ts": "test/integration/transformers-hub.test.ts",
  "src/engines/transformers/tasks/causal-task.ts": "test/integration/transformers-tasks.test.ts",
  "src/engines/transformers/tasks/generate.ts": "test/integration/transformers.test.ts",
  "src/engines/transformers/tasks/sequence-task.ts": "test/integration/transformers.test.ts",
  "src/engines/transformers/tasks/zero-shot-task.ts": "test/integration/transformers-tasks.test.ts",
  "src/prompt/answer-form.ts": "test/prompt/prompt-set.test.ts",
  "src/prompt/compiled-prompt.ts": "test/prompt/prompt-set.test.ts",
  "src/prompt/field-path.ts": "test/prompt/template.test.ts",
  "src/prompt/jinja-library.ts": "test/prompt/template.test.ts",
  "src/prompt/jinja-numbers.ts": "test/prompt/written-numbers.test.ts",
  "src/prompt/jinja-scope.ts": "test/prompt/template.test.ts",
  "src/prompt/jinja-syntax.ts": "test/prompt/template.test.ts",
  "src/prompt/strict-interpreter.ts": "test/prompt/template.test.ts",
  "src/prompt/template-position.ts": "test/prompt/template.test.ts",
  "src/prompt/types/alpaca.ts": "test/prompt/types/golden.test.ts",
  "src/prompt/types/conversations.ts": "test/prompt/types/golden.test.ts",
  "src/prompt/types/creative.ts": "test/prompt/types/golden.test.ts",
  "src/prompt/types/row-fields.ts": "test/prompt/types/typed-prompt.test.ts",
  "src/run/attempt/encode-part.ts": "test/run/output/publish-results.test.ts",
  "src/run/prompt-fit.ts": "test/integration/hostile-texts.test.ts",
  "src/run/retry/rescan.ts": "test/run/retry/extend-run.test.ts and mended-rows.test.ts",
  "src/run/stream-rows.ts": "test/dataset/dataset.test.ts",
};

/** Lines that hold code: no blank ones, no comments. */
function codeLines(file: SourceFile): number {
  let text = file.text;
  for (const { start, end } of file.comments.toReversed()) {
    text = text.slice(0, start) + text.slice(end);
  }
  return text.split("\n").filter((line) => line.trim() !== "").length;
}

/**
 * Calls that would leave tests out without a reason, such as `it.skip`, `describe.only` and
 * `it.skipIf`. With one: `context.skip(condition, reason)` within the test.
 */
function silenced(file: SourceFile): string[] {
  const found: string[] = [];
  walk(file.program, (node) => {
    if (node.type !== "MemberExpression") return;
    const text = file.text.slice(node.start, node.end);
    if (/^(it|test|describe)\.(only|todo|skip|skipIf|runIf)$/.test(text)) {
      found.push(`${file.path}:${lineAt(file, node.start)}: ${text}`);
    }
  });
  return found;
}

describe("tests", () => {
  const sources = sourceFiles(...mirrored);
  const tests = sourceFiles("test");

  it("are seen", () => {
    expect(sources.length).toBeGreaterThanOrEqual(35);
    expect(tests.length).toBeGreaterThanOrEqual(30);
  });

  it("exist for every file of substance", () => {
    const named = new Set(tests.flatMap(edgesOf).map(({ to }) => to));
    const untested = sources
      .filter((file) => codeLines(file) >= minCodeLines)
      .map(({ path }) => path)
      .filter((path) => !named.has(path) && !existsSync(join(root, mirrorOf(path))));
    expect(untested.filter((path) => !(path in testedElsewhere))).toEqual([]);
    expect(Object.keys(testedElsewhere).filter((path) => !untested.includes(path))).toEqual([]);
  });

  it("are named so that vitest runs them", () => {
    const asserting = tests.filter(({ program, path }) => {
      let calls = 0;
      walk(program, (node) => {
        if (node.type !== "CallExpression") return;
        const callee = node.callee as { type: string; name?: string };
        if (callee.type === "Identifier" && callee.name === "it") calls++;
      });
      return calls > 0 && !path.endsWith(".test.ts");
    });
    const suites = new Set(tests.flatMap(edgesOf).map(({ to }) => to));
    expect(asserting.map(({ path }) => path).filter((path) => !suites.has(path))).toEqual([]);
  });

  it("lie in folders, where a project of vitest takes them", () => {
    const top = filesUnder("test", (path) => /^test\/[^/]+\.test\.ts$/.test(path));
    expect(top).toEqual([]);
    expect(filesUnder("src", (path) => path.endsWith(".test.ts"))).toEqual([]);
  });

  it("start the program by test/sluice-program.ts alone, which is that of the package", () => {
    const starting = sourceFiles("test/integration", "test/peers", "test/chaos").flatMap((file) => {
      const named = /join\(root, "(?:bin\/sluice|src\/cli\/main)/.exec(file.text);
      return named ? [`${file.path}:${lineAt(file, named.index)}`] : [];
    });
    expect(starting).toEqual([]);
  });

  it("are not switched off: a test that cannot run skips itself with a reason", () => {
    expect(tests.flatMap(silenced)).toEqual([]);
  });
});

function mirrorOf(path: string): string {
  return path.replace(/^src\//, "test/").replace(/\.ts$/, ".test.ts");
}
