import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { translateConfig } from "../../../src/run/axolotl/config.ts";
import type { JobFlags } from "../../../src/run/job/layers.ts";
import { loadJob } from "../../../src/run/job/load.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-axolotl-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The job that a config stands for. */
async function read(text: string, flags: JobFlags = {}) {
  writeFileSync(join(folder, "config.yaml"), text);
  const notices: string[] = [];
  const { job } = await loadJob({
    file: "config.yaml",
    environment: {},
    flags,
    workingDirectory: folder,
    translate: (config) => {
      const translated = translateConfig(config);
      notices.push(...translated.notices);
      return translated.file;
    },
  });
  return { job, notices };
}

async function refusal(text: string): Promise<SluiceError> {
  try {
    await read(text);
  } catch (error) {
    if (error instanceof SluiceError) return error;
    throw error;
  }
  throw new Error("the config was taken");
}

const datasets = "datasets:\n  - {path: a.jsonl, type: alpaca}\n";
const small = `base_model: fake\n${datasets}`;

describe("translateConfig", () => {
  it("finds a job in a config that was made for training", async () => {
    const { job, notices } = await read(`
base_model: some-model
base_model_config: some-model
load_in_8bit: false
datasets:
  - path: rows.jsonl
    name: Sample
    type: gpteacher
    train_on_eos: all
  - path: json
    data_files: chats.jsonl
    type: chat_template
    chat_template: tokenizer_default
    field_messages: turns
sequence_len: 2048
truncate_features: [response]
special_tokens: { eos_token: "</s>" }
generation_config: { max_new_tokens: 20, do_sample: true }
dataset_prepared_path:
learning_rate: 0.0002
lora_model_dir:
seed: 42
output_dir: ./out
workers: { max: 2 }
`);
    expect(job).toMatchObject({
      model: { engine: "llama", name: "some-model" },
      dataset: [
        { name: "Sample", path: join(folder, "rows.jsonl"), type: "gpteacher", eosToken: "</s>" },
        { name: "chats", type: "chat_template", field_messages: "turns" },
      ],
      sequenceLen: 2048,
      truncateFeatures: ["response"],
      generation: { maxNewTokens: 20, doSample: true, seed: 42 },
      output: { path: join(folder, "out") },
      workers: { max: 2 },
    });
    // A chat ends as the model's template has it.
    expect(job.dataset![1]).not.toHaveProperty("eosToken");
    expect(notices).toEqual([
      "not read, for training only: load_in_8bit, learning_rate, datasets.train_on_eos",
    ]);
  });

  it("takes generation as a text, and the seed beside it", async () => {
    const { job } = await read(`${small}generation_config: temperature=0.5\nseed: 7`);
    expect(job.generation).toMatchObject({ temperature: 0.5, seed: 7 });
    expect((await read(`${small}seed: 7`)).job.generation.seed).toBe(7);
  });

  it("says that another configuration of the model is not read", async () => {
    const { notices } = await read(`${small}base_model_config: other`);
    expect(notices).toEqual([expect.stringContaining("base_model_config other is not read")]);
  });

  it("takes an adapter that is a GGUF file", async () => {
    const { job } = await read(`base_model: m\n${datasets}lora_model_dir: lora.gguf`);
    expect(job.model).toMatchObject({ lora: [{ path: join(folder, "lora.gguf") }] });
  });

  it("takes an adapter beside a model of the command line", async () => {
    const { job } = await read(`${datasets}lora_model_dir: lora.gguf`, { model: "m.gguf" });
    const lora = [{ path: join(folder, "lora.gguf") }];
    expect(job.model).toMatchObject({ engine: "llama", name: join(folder, "m.gguf"), lora });
  });

  const chats = "base_model: m\ndatasets: [{path: a.jsonl, type: chat_template}]\n";

  it("takes the template of the model", async () => {
    const { job } = await read(`${chats}chat_template: tokenizer_default`);
    expect(job.dataset).toMatchObject([{ type: "chat_template" }]);
  });

  it.each([
    [
      `${chats}chat_template: tokenizer_default\ndefault_system_message: Be brief.`,
      "UNSUPPORTED",
      /own chat template.*field default_system_message/,
    ],
    [
      `${chats}chat_template: tokenizer_default\nchat_template_jinja: "{{ messages }}"`,
      "UNSUPPORTED",
      /own chat template.*field chat_template_jinja/,
    ],
    [
      `${datasets}model: {engine: llama, name: m, lora: [x.gguf]}\nlora_model_dir: y.gguf`,
      "JOB_INVALID",
      /lora_model_dir and model\.lora say the same/,
    ],
    [`${datasets}model: m.gguf\nlora_model_dir: y.gguf`, "JOB_INVALID", /config\.yaml:3.*model/],
    [`${datasets}lora_model_dir: y.gguf`, "JOB_INVALID", /model\.name/],
    [`${small}dataset: {path: b, type: alpaca}`, "JOB_INVALID", /datasets and dataset/],
    [`${small}model: {engine: fake}`, "JOB_INVALID", /base_model and model/],
    [`${small}output_dir: a\noutput: b`, "JOB_INVALID", /output_dir and output/],
    [`${small}lora_model_dir: ./lora-out`, "UNSUPPORTED", /adapters.*lora_model_dir/],
    [
      "base_model: m\nchat_template: llama3\ndatasets: [{path: a.jsonl, type: messages}]",
      "UNSUPPORTED",
      /own chat template.*field chat_template/,
    ],
    [
      "base_model: m\nchat_template: llama3\ndatasets: [{path: a.jsonl, type: chat_template}]",
      "UNSUPPORTED",
      /own chat template.*field chat_template/,
    ],
    [
      `base_model: fake\ndatasets: [{path: a.jsonl, type: alpaca, shards: 4}]`,
      "JOB_INVALID",
      /shards/,
    ],
  ])("refuses %s", async (text, code, message) => {
    const error = await refusal(text);
    expect(error.code).toBe(code);
    expect(error.message).toMatch(message);
  });

  it("lets a chat template stand that no prompt goes through", async () => {
    const { notices } = await read(`${small}chat_template: llama3`);
    expect(notices).toEqual(["not read, for training only: chat_template"]);
  });

  it("names the line of the config in what is wrong", async () => {
    const { message } = await refusal(`base_model: fake\nsequence_len: no\n${datasets}`);
    expect(message).toMatch(/config\.yaml:2.*sequenceLen/);
    const entry = await refusal("base_model: fake\ndatasets:\n  - path: a.jsonl\n    type: 5");
    expect(entry.message).toMatch(/config\.yaml:4/);
  });
});
