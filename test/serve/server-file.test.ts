// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are what files hold.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SluiceError } from "../../src/foundation/errors.ts";
import type { JsonObject } from "../../src/foundation/json.ts";
import { ofModel, readServerFile } from "../../src/serve/server-file.ts";
import { rejectionOf } from "../engines/engine-context.ts";
import { serverFolder } from "./server-here.ts";

/** Reads a server's file with this text, and flags. */
function read(text: string | undefined, models: string[] = [], keys: JsonObject = {}) {
  const workingDirectory = serverFolder();
  if (text !== undefined) writeFileSync(join(workingDirectory, "serve.yaml"), text);
  const surroundings = { environment: { PORT: "1" }, workingDirectory };
  return readServerFile(
    text === undefined ? undefined : "serve.yaml",
    { models, keys },
    surroundings,
  );
}

const fault = async (...of: Parameters<typeof read>) => {
  const { code, message, hint } = (await rejectionOf(read(...of))) as unknown as SluiceError;
  return { code, message, hint };
};

const words = "the server's settings are not valid";

describe("the file of a server", () => {
  it.each([
    [
      "limit:\n  maxTries: 3\n",
      "limit: is not a key here; did you mean limits?",
      "serve.yaml:1, field limit",
    ],
    [
      "models:\n  m: fake\nlimits:\n  maxTrys: 3\n",
      "limits.maxTrys: is not a key here; did you mean maxTries?",
      "serve.yaml:4, field limits.maxTrys",
    ],
    [
      "models:\n  m: fake\nlimits:\n  maxTries: many\n",
      /limits\.maxTries: .*number.*/,
      "serve.yaml:4, field limits.maxTries",
    ],
    [
      "models:\n  m:\n    model: fake\n    worker: 2\n",
      "models.m.worker: is not a key here; did you mean workers?",
      "serve.yaml:4, field models.m.worker",
    ],
    [
      "models:\n  m: fake\narchives:\n  models:\n    ko.mar: { batchSise: 2 }\n",
      "archives.models.ko.mar.batchSise: is not a key here; did you mean batchSize?",
      "serve.yaml:5, field archives.models.ko.mar.batchSise",
    ],
    [
      "models:\n  m: fake\ntokens:\n  - { name: a, sha256: abc }\n",
      /must be the SHA-256 of the token/,
      "serve.yaml:4, field tokens.0.sha256",
    ],
    [
      "models: { m: fake }\nlisten: { inference: localhost }\n",
      /listen\.inference/,
      "serve.yaml:2",
    ],
    ["- a\n- b\n", "it is not a mapping of keys to values", "(serve.yaml)"],
    ["models:\n  m: [\n", "", "serve.yaml:"],
    ["models: { m: fake }\nmodels: { n: fake }\n", "models is there twice", "serve.yaml:2"],
  ])(
    "has its faults named as those of a server, with file and line: %j",
    async (text, says, at) => {
      const { code, message, hint } = await fault(text);
      expect(code).toBe("SERVER_INVALID");
      expect(message).toContain(`${words}: `);
      expect(message).toMatch(says);
      expect(message).toContain(at);
      expect(`${message} ${hint}`).not.toMatch(/\bjob/);
      expect(hint).not.toBe("");
    },
  );

  it("names all faults at once, each with its line", async () => {
    const { code, message, hint } = await fault("models: { m: fake }\nfoo: 1\nlimits:\n  bar: 2\n");
    expect([code, hint]).toEqual(["SERVER_INVALID", "see docs/serve.md"]);
    expect(message).toContain(`${words}: 2 problems`);
    expect(message).toMatch(/serve\.yaml:2 foo: .*\n.*serve\.yaml:4 limits\.bar: /);
  });

  it("is not blamed for flags", async () => {
    const file = "models: { m: fake }\nlisten: { metrics: 127.0.0.1:1 }\n";
    const keys = { listen: { inference: "0.0.0.0" }, archives: {} };
    const address = await fault(file, [], keys);
    expect(address.message).toContain("(field listen.inference)");
    expect(address.message).not.toContain("serve.yaml");
    const model = await fault(file, ["e=transformers:hf:owner/name"]);
    expect(model.message).toMatch(/: --model e: .*\(field models\.e\.model\.task\)/);
    expect(model.message).not.toContain("serve.yaml");
  });

  it("is named if it is missing or a variable is not set", async () => {
    const workingDirectory = serverFolder();
    const missing = readServerFile(
      "none.yaml",
      { models: [], keys: {} },
      {
        ...{ environment: {}, workingDirectory },
      },
    );
    await expect(missing).rejects.toMatchObject({
      code: "SERVER_INVALID",
      message: `${words}: there is no such file (none.yaml)`,
      hint: "check the path",
    });
    const unset = await fault("models: { m: fake }\ndataDirectory: ${PLACE}\n");
    expect(unset).toMatchObject({ code: "ENV_MISSING", message: expect.stringContaining(":2") });
    expect(await fault(undefined)).toMatchObject({
      ...{ code: "SERVER_INVALID", message: expect.stringContaining("the server has no models") },
    });
  });

  it("gives its lines to faults that are found later", async () => {
    const { placed } = await read("models:\n  m:\n    model: fake\n  n: fake\nlisten: {}\n");
    const told = (thrown: unknown) => (placed(thrown) as Error).message;
    const unsafe = new SluiceError("SERVER_INVALID", "no", { field: "listen.inference" });
    expect(told(unsafe)).toBe(`${words}: no (serve.yaml:5, field listen.inference)`);
    const options = new SluiceError("JOB_INVALID", "too few", { field: "model.devices" });
    expect(told(ofModel("n", options))).toBe(
      `${words}: too few (serve.yaml:4, field models.n.model.devices)`,
    );
    const died = new SluiceError("ENGINE_START_FAILED", "it exited with 1");
    expect(told(ofModel("m", died))).toMatch(
      /it exited with 1 \(serve\.yaml:2, field models\.m\)$/,
    );
    const other = new Error("other");
    expect(placed(other)).toBe(other);
  });

  it("has its paths start from its folder, and those of flags from the present one", async () => {
    const workingDirectory = serverFolder();
    mkdirSync(join(workingDirectory, "deep"));
    const models = "models: { a: 'predictor:./a.mjs' }";
    writeFileSync(join(workingDirectory, "deep/serve.yaml"), `${models}\ndataDirectory: data\n`);
    const { options } = await readServerFile(
      "deep/serve.yaml",
      { models: ["b=predictor:./b.mjs"], keys: {} },
      { environment: {}, workingDirectory },
    );
    expect(options).toMatchObject({
      models: {
        a: { model: { module: join(workingDirectory, "deep/a.mjs") } },
        b: { model: { module: join(workingDirectory, "b.mjs") } },
      },
      dataDirectory: join(workingDirectory, "deep/data"),
    });
  });

  it.each([
    ["c=command:./answer.py", "c", { engine: "command", command: "./answer.py" }],
    ["command:./bin/answer.py", "answer.py", { engine: "command" }],
    ["command:cat", "cat", { engine: "command", command: "cat" }],
    ["openai:gpt-4o-mini", "gpt-4o-mini", { engine: "openai", name: "gpt-4o-mini" }],
    ["openai:org/large", "large", { engine: "openai", name: "org/large" }],
    ["v=vllm:org/large", "v", { engine: "vllm", name: "org/large" }],
    ["vllm:org/large", "large", { engine: "vllm", name: "org/large" }],
    ["llama-server:./models/a.gguf", "a", { engine: "llama-server" }],
    ["smollm2-135m-instruct", "smollm2-135m-instruct", { engine: "llama" }],
    ["./models/b.Q4_0.gguf", "b.Q4_0", { engine: "llama" }],
    ["predictor:./deep/echo.mts", "echo", { engine: "predictor" }],
    ["team/chat=fake", "team/chat", { engine: "fake" }],
    ["fake", "fake", { engine: "fake" }],
  ])("takes --model %s under the name %s", async (flag, name, model) => {
    const { models } = (await read(undefined, [flag])).options;
    expect(models).toMatchObject({ [name]: { model } });
    expect(Object.keys(models)).toEqual([name]);
  });

  it("takes the archives of docs/torchserve.md", async () => {
    const page = readFileSync(join(import.meta.dirname, "../../docs/torchserve.md"), "utf8");
    const [, text = ""] = /```yaml\n(models:.*?)```/s.exec(page) ?? [];
    const { archives } = (await read(text)).options;
    expect(archives).toMatchObject({
      load: [{ name: "ko", file: "m2m.mar" }],
      workers: 2,
    });
    expect(archives.models).toEqual({ ko: { maxWorkers: 4, batchSize: 8 } });
  });
});
