import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { jobSchema } from "../../../src/run/job/schema.ts";
import { jobFolder } from "./job-folder.ts";

const { folder, load, fail } = jobFolder();
const withDatasets = (text: string) => `model: {engine: fake}\n${text}\n`;
const own = { onTooLong: "fail", maxLineBytes: 16_777_216 };

describe("dataset", () => {
  it("is one or several inputs with a type each", async () => {
    const text = withDatasets(
      `dataset:\n  - {name: A, path: a.jsonl, type: alpaca, id: key}\n  - {path: b.json, type: {format: "{instruction}"}}`,
    );
    const { job } = await load(text);
    expect(job.dataset).toMatchObject([{ name: "A" }, { name: "b" }]);
    expect(job.input).toEqual([
      { path: join(folder, "a.jsonl"), id: "key", maxLineBytes: 16_777_216 },
      { path: join(folder, "b.json"), maxLineBytes: 16_777_216 },
    ]);
    expect(jobSchema.parse(JSON.parse(JSON.stringify(job)))).toEqual(job);
  });

  it("reads key=value texts of flags, variables and job files", async () => {
    const text = "name=Sample,path=/d/rows.json,type=gpteacher";
    const expected = [{ ...own, name: "Sample", path: "/d/rows.json", type: "gpteacher" }];
    const model = "model: {engine: fake}\n";
    expect((await load(model, { flags: { dataset: text } })).job.dataset).toEqual(expected);
    const environment = { SLUICE_DATASET: text };
    expect((await load(model, { environment })).job.dataset).toEqual(expected);
    expect((await load(withDatasets(`dataset: "${text}"`))).job.dataset).toEqual(expected);
    expect((await load(withDatasets(`dataset: ["${text}"]`))).job.dataset).toEqual(expected);
    const two = [text, 'path="/d/a, b.jsonl",type=chat_template,field_messages=turns'];
    expect((await load(model, { flags: { dataset: two } })).job.dataset).toEqual([
      ...expected,
      {
        ...own,
        name: "a, b",
        path: "/d/a, b.jsonl",
        type: "chat_template",
        field_messages: "turns",
      },
    ]);
  });

  it("takes Axolotl's names of files", async () => {
    const { job } = await load(
      withDatasets(
        "dataset:\n  - {path: json, data_files: [x.jsonl, y.jsonl], type: alpaca, split: train}\n" +
          "  - {path: folder, data_files: z.txt, ds_type: text, type: completion}",
      ),
    );
    expect(job.dataset!.map(({ name }) => name)).toEqual(["x", "folder"]);
    expect(job.input).toMatchObject([
      { path: join(folder, "x.jsonl") },
      { path: join(folder, "y.jsonl") },
      { path: join(folder, "folder/z.txt"), format: "text" },
    ]);
  });

  it("stands in no layer beside input or prompts, and replaces those of layers below", async () => {
    const entry = "dataset: {path: a.jsonl, type: alpaca}";
    const both = await fail(withDatasets(`${entry}\ninput: b.jsonl\nprompt: x`));
    expect(both.message).toContain("input: dataset says what is read");
    expect(both.message).toContain("prompt: dataset has prompts of its own");
    const flags = { dataset: "path=/c.jsonl,type=alpaca" };
    const { job } = await load("model: {engine: fake}\ninput: b.jsonl\nprompt: x", { flags });
    expect([job.input[0]!.path, job.prompt]).toEqual(["/c.jsonl", undefined]);
  });

  it.each([
    ["dataset: nothing", /write it as name=…,path=…,type=…/],
    ['dataset: "path=a.jsonl,path=b.jsonl"', /write it as name=…/],
    ["dataset: {path: a.jsonl}", /dataset.type/],
    ["dataset: {path: '-', type: alpaca}", /dataset\.path: must be a file/],
    ["dataset: {path: a.jsonl, type: alpaca, field_mesages: x}", /did you mean field_messages\?/],
    ["dataset: {path: a.jsonl, type: alpaca, split: test}", /dataset\.split/],
    ["dataset: {path: a.csv, type: alpaca, ds_type: csv}", /must be one of json, text/],
    [
      "dataset: [{path: a.jsonl, type: alpaca}, {path: x/a.json, type: alpaca}]",
      /dataset\.1\.name: there are two datasets a/,
    ],
  ])("refuses %s", async (text, message) => {
    expect((await fail(withDatasets(text))).message).toMatch(message);
  });

  it("is missing beside input only where both are", async () => {
    const { message } = await fail("workers: {max: 0}");
    expect(message).toContain("input: is missing: name what to read");
    expect(message).toContain("model");
    expect((await fail(withDatasets("dataset: 5"))).message).not.toContain("input: is missing");
  });
});

describe("sequence_len and truncate_features", () => {
  const job = withDatasets("dataset: {path: a.jsonl, type: alpaca}");

  it("are other names of sequenceLen and truncateFeatures", async () => {
    const text = `${job}sequence_len: 90\ntruncate_features: [a, b]`;
    expect((await load(text)).job).toMatchObject({ sequenceLen: 90, truncateFeatures: ["a", "b"] });
    const flags = { sequence_len: "70", truncate_features: "response,output" };
    expect((await load(text, { flags })).job).toMatchObject({
      sequenceLen: 70,
      truncateFeatures: ["response", "output"],
    });
  });

  it("are refused beside the name that they stand for, with the line", async () => {
    const { message } = await fail(`${job}sequence_len: 90\nsequenceLen: 80`);
    expect(message).toMatch(/is another name of sequenceLen, which is given too/);
    expect((await fail(`${job}sequence_len: 1`)).message).toMatch(/job\.yaml:3.*sequenceLen/);
  });
});
