import { describe, expect, it } from "vitest";
import { jobFolder, small } from "./job-folder.ts";

const { load, fail } = jobFolder();

describe("a job with faults", () => {
  it("names all of them, each with line and key", async () => {
    const error = await fail(`modle: 3
input: { path: rows.jsonl, fromat: jsonl }
model: { engine: llama, name: a, latencyMs: 3 }
prompts:
  short:
    promt: hi
generation:
  temperature: warm
limit: -1
onRowError: dead-leter
`);
    expect(error.code).toBe("JOB_INVALID");
    const lines = error.message.split("\n").slice(1);
    expect(lines).toEqual([
      "  job.yaml:1 modle: is not a key here; did you mean model?",
      "  job.yaml:2 input.fromat: is not a key here; did you mean format?",
      "  job.yaml:3 model.latencyMs: engine llama has no such key",
      "  job.yaml:5 prompts.short: give exactly one of prompt, messages and type",
      "  job.yaml:6 prompts.short.promt: is not a key here; did you mean prompt?",
      '  job.yaml:8 generation.temperature: must be a number, not "warm"',
      "  job.yaml:9 limit: must be at least 0",
      '  job.yaml:10 onRowError: must be one of dead-letter, fail, not "dead-leter"; did you mean dead-letter?',
    ]);
  });

  it("names the key of a flag or a variable that holds several", async () => {
    const flags = { dataset: ["path=a.jsonl,typ=alpaca"] };
    const environment = { SLUICE_GENERATION: "temperature=warm" };
    const error = await fail("model: {engine: fake}", { flags, environment });
    const lines = error.message.split("\n").slice(1);
    expect(lines.toSorted()).toEqual([
      "  --dataset (dataset.typ): is not a key here; did you mean type?",
      "  --dataset (dataset.type): is missing",
      '  SLUICE_GENERATION temperature: must be a number, not "warm"',
    ]);
  });

  it("says which command reads a config of Axolotl", async () => {
    const error = await fail("base_model: m\ndatasets: []\n");
    expect(error.hint).toContain("sluice inference batch -c");
  });

  it("says how a model is written whose name alone is given, as --model takes it", async () => {
    const error = await fail("input: rows.jsonl\nmodel: smollm2-135m-instruct\nprompt: hi\n");
    expect(error.message).toContain(
      'must be an object, not "smollm2-135m-instruct": name a model, as model: {engine: llama, name: …}',
    );
  });

  it("says what a size of memory looks like", async () => {
    const error = await fail(small("workers: { memory: lots }"));
    expect(error.message).toContain(
      'workers.memory: must be a number with K, M, G or T, as 120G, not "lots"',
    );
  });

  it("refuses a list from standard input, whose paths would start from nowhere", async () => {
    const flags = { "input-list": ["-"], model: "fake", prompt: "p" };
    expect((await fail(undefined, { flags })).message).toContain("a list is read from a file");
  });

  it("names every form of a key that may be a word or a list", async () => {
    const model = (devices: string) =>
      small().replace("{ engine: fake }", `{ engine: command, command: a, devices: ${devices} }`);
    expect((await fail(model("0"))).message).toContain("must be all or a list, not 0");
    expect((await fail(model("al"))).message).toContain('must be one of all, not "al"');
  });

  it("refuses prefixes of what is no list", async () => {
    const input = (more: string) =>
      `input: {path: a.txt, prefixes: {/in/: /data/}${more}}\nmodel: {engine: fake}\nprompt: p\n`;
    expect((await fail(input(""))).message).toContain("set input.list too");
    const { job } = await load(input(", list: true"));
    expect(job.input[0]?.prefixes).toEqual({ "/in/": "/data/" });
  });

  it("refuses a variable whose name no environment can hold", async () => {
    for (const env of ["=x", "A B=x", ""]) {
      const error = await fail(small(), { flags: { env: [env] } });
      expect(error.message, env).toContain("a name of a variable is not empty");
    }
    expect((await load(small(), { flags: { env: ["A=B=C", "HOME"] } })).job.env).toEqual({
      A: "B=C",
      HOME: null,
    });
  });

  it("refuses an output that looks like a file of another format", async () => {
    for (const path of ["results.txt", "b/results.XLSX", "results.arrow.gz", "results.gz"]) {
      const error = await fail(small(), { flags: { output: path } });
      expect(error.message, path).toContain(
        "names a file of another format: results are .jsonl, .json, .csv, .tsv or .parquet",
      );
    }
    const known = ["results.jsonl", "b/results.CSV", "results.parquet", "results.json.zst"];
    for (const path of [...known, "results.ndjson", "out.v2", "out/{stem}.new.json"]) {
      expect((await load(small(), { flags: { output: path } })).job.output.path).toContain("/");
    }
  });

  it("refuses forms of output that contradict one another", async () => {
    const wrong: [output: string, message: string][] = [
      ["{ path: r.csv, format: json }", "output.format: the path's ending is another: r.csv says"],
      ["{ path: r.csv.gz, compression: none }", "output.compression: the path's ending"],
      ["{ path: out, format: parquet, compression: brotli }", "compressed within the file"],
      ["{ path: out, format: csv, compression: snappy }", "snappy is for Parquet"],
      ["{ path: r.csv, perInputFile: true }", "output.perInputFile: the path must be a directory"],
      ["{ path: out, perInputFile: true, format: openai-batch }", "openai-batch is one file"],
      ['"out/{steam}.json"', "did you mean {stem}? there are {stem} {dir} {index} {id}"],
      ['"out/{stem.json"', "has a brace alone"],
      ['"out/{stem}"', "must end as the files are written"],
    ];
    for (const [output, message] of wrong) {
      expect((await fail(small(`output: ${output}`))).message, output).toContain(message);
    }
    expect((await fail(small("output: { path: out, format: cvs }"))).message).toContain("csv");
  });

  it("names file, line and field of a single one", async () => {
    const error = await fail(small("workers:\n  max: 0"));
    expect(error.place).toEqual({ file: "job.yaml", line: 5, field: "workers.max" });
  });

  it("says what is missing and how to give it", async () => {
    const error = await fail("prompt: hi");
    expect(error.message).toContain("--input rows.jsonl");
    expect(error.message).toContain("--model NAME");
  });

  it("refuses an unknown engine with the nearest", async () => {
    const error = await fail(small().replace("fake", "lama"));
    expect(error.message).toContain("did you mean llama?");
    expect(error.place.field).toBe("model.engine");
  });

  it("refuses prompt and prompts in one file, and lets a flag choose", async () => {
    const both = small("prompts: { a: x }");
    expect((await fail(both)).message).toContain("exactly one of prompt and prompts");
    const { job } = await load(small().replace(/prompt:.*/, "prompts: { a: x }"), {
      flags: { prompt: "y" },
    });
    expect(job.prompt?.prompt).toBe("y");
    expect(job.prompts).toBeUndefined();
  });

  it("gives the line of broken YAML", async () => {
    const error = await fail("input: [a\nmodel: 3\n");
    expect(error.code).toBe("JOB_INVALID");
    expect(error.place.line).toBeGreaterThan(0);
  });

  it("refuses a file that is no mapping", async () => {
    expect((await fail("- a\n- b\n")).message).toContain("a mapping of keys");
  });

  it("refuses a key given twice", async () => {
    const error = await fail(small("limit: 1\nlimit: 2"));
    expect(error.place.line).toBe(5);
  });
});

describe("secrets", () => {
  const server = (keys: string) =>
    small().replace("{ engine: fake }", `{ engine: openai, name: a, ${keys} }`);

  it("have no place in a job", async () => {
    const error = await fail(server("apiKey: sk-1"));
    expect(error.hint).toContain("apiKeyEnv");
    expect(error.message).not.toContain("sk-1");
  });

  it("are not taken for the name of a variable, nor shown", async () => {
    const error = await fail(server("apiKeyEnv: sk-live-2"));
    expect(error.place.field).toBe("model.apiKeyEnv");
    expect(error.message).not.toContain("sk-live-2");
  });

  it("may not hide in an address", async () => {
    const error = await fail(server('baseUrl: "https://me:hush@host/v1"'));
    expect(error.place.field).toBe("model.baseUrl");
    expect(error.message).not.toContain("hush");
  });

  it.each([
    ['{ engine: llama, name: "https://me:hush@h/m.gguf" }', "model.name"],
    [
      '{ engine: pipeline, stages: [{ kind: generate, model: { engine: llama, name: "https://me:hush@h/m.gguf" } }] }',
      "model.stages.0.model.name",
    ],
  ])("may not hide in the address of a model: %s", async (model, field) => {
    const error = await fail(small().replace("{ engine: fake }", model));
    expect(error.place.field).toBe(field);
    expect(error.hint).toContain("name it by path");
    expect(error.message).not.toContain("hush");
  });

  it.each([
    ["apiKey: sk-live-3", "apiKey"],
    ["apiKeyEnv: sk-live-3", "apiKeyEnv"],
    ['baseUrl: "https://me:sk-live-3@host/v1"', "baseUrl"],
  ])("have no place in one of several endpoints: %s", async (keys, key) => {
    const own = keys.startsWith("baseUrl") ? keys : `baseUrl: "http://host/v1", ${keys}`;
    const error = await fail(server(`endpoints: [{ baseUrl: "http://a/v1" }, { ${own} }]`));
    expect(error.place.field).toBe(`model.endpoints.1.${key}`);
    expect(error.message).not.toContain("sk-live-3");
  });
});
