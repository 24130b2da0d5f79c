// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are what job files hold.
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { jobFolder, small } from "./job-folder.ts";

const { folder, load, fail } = jobFolder();
const untrusted = (flags = {}, environment = {}) => ({
  environment,
  flags: { untrusted: true, "allow.folders": ".", ...flags },
});
const withModel = (model: string) => `input: rows.jsonl\nprompt: "{{ text }}"\nmodel: ${model}\n`;
const openai = (more: string) => withModel(`{ engine: openai, name: m${more} }`);

describe("a job with trust: data", () => {
  it.each([
    ["{ engine: command, command: ./run }", "executes ./run"],
    ["{ engine: predictor, module: ./x.ts }", "executes ./x.ts"],
    ["{ engine: vllm, name: o/n, command: [./v] }", "executes ./v"],
    ["{ engine: pipeline, stages: [{ kind: map, column: a, module: ./m.ts }] }", "executes ./m.ts"],
    ["{ engine: openai, name: m, baseUrl: 'http://127.0.0.1:1/v1' }", "a private network"],
    ["{ engine: openai, name: m, baseUrl: 'http://169.254.169.254/v1' }", "or its cloud"],
  ])("is refused what reaches further: %s", async (model, message) => {
    const text = withModel(model);
    expect((await fail(`${text}trust: data\n`)).message).toContain(message);
    await load(text);
  });

  it("may ask public servers, and private ones that are allowed", async () => {
    const server = (host: string) => openai(`, baseUrl: "http://${host}/v1"`);
    expect((await load(`${server("gateway.example")}trust: data\n`)).job.trust).toBe("data");
    await load(`${server("10.0.0.1")}trust: data\nallow: { privateNetworks: true }\n`);
  });
});

describe("a job file that is not trusted", () => {
  it.each([
    [small("allow: { folders: / }"), "allow"],
    [small("env: { A: b }"), "env"],
    [small("store: { endpoint: 'https://evil.example' }"), "store.endpoint"],
    [openai(", apiKeyEnv: MY_KEY"), "model.apiKeyEnv"],
    [openai(", endpoints: [{ baseUrl: 'https://x.example', apiKeyEnv: A_KEY }]"), "apiKeyEnv"],
    [small("limit: 3").replace("Say", "${HOME}"), "${HOME} is not filled in"],
    [small("").replace("rows.jsonl", "../rows.jsonl"), "input.0.path"],
    [small("").replace("rows.jsonl", "/etc/*"), "/etc lies in no folder"],
    [small("").replace("rows.jsonl", "s3://mine/rows.jsonl"), "s3://mine/rows.jsonl"],
    [small("output: /tmp/elsewhere"), "output.path"],
    [small("cache: ~/answers"), "cache.path"],
    [small("preparedDir: ../prepared"), "preparedDir"],
    [small("backend: ray\nray: { address: http://h:8265 }"), "ray.address"],
    [withModel("{ engine: llama, name: ../secret.gguf }"), "model.name"],
    [withModel("{ engine: llama, name: m, lora: [../secret.gguf] }"), "model.lora"],
    [withModel("{ engine: llama, name: 'file:../secret.gguf' }"), "model.name"],
    [withModel("{ engine: fake, countFile: ../notes }"), "model.countFile"],
  ])("says nothing of its own reach: %#", async (text, named) => {
    const environment = { HOME: "/home/me", MY_KEY: "k", A_KEY: "k" };
    const error = await fail(text, untrusted({}, environment));
    expect(error.code).toBe("JOB_INVALID");
    expect(error.message).toContain(named);
    await load(text, { environment });
  });

  it("runs with what its caller names", async () => {
    const flags = { output: join(folder, "out"), env: ["A=b"], input: "/data/rows.jsonl" };
    const { job } = await load(small(), untrusted(flags));
    expect(job).toMatchObject({ trust: "data", env: { A: "b" }, allow: { folders: [folder] } });
    const named = { untrusted: true, output: "/x/out" };
    expect((await fail(small(), { flags: named })).message).toContain("--allow.folders");
    const alone = { ...named, input: "a", model: "fake", prompt: "x" };
    expect((await load(undefined, { flags: alone })).job.trust).toBe("data");
  });
});
