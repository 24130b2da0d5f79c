import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { describeEngine } from "../../src/engines/registry.ts";
import { serveSchema } from "../../src/serve/options.ts";
import { root } from "../meta/source-tree.ts";

describe("limits of a server", () => {
  it("are all in docs/serve.md, with their defaults", () => {
    const text = readFileSync(join(root, "docs/serve.md"), "utf8");
    const rows = text.matchAll(/^\| `(\w+)` \| ([\d,]+)( [KM]iB)? \|/gm);
    const units: Record<string, number> = { " KiB": 1024, " MiB": 1024 ** 2 };
    const documented = Array.from(rows, ([, key, number, unit = ""]) => {
      return [key, Number(number!.replaceAll(",", "")) * (units[unit] ?? 1)];
    });
    expect(Object.fromEntries(documented)).toEqual(serveSchema.parse({ models: {} }).limits);
  });
});

describe("a model that is served", () => {
  it("answers a request alone soon, unless its file wants exact answers", () => {
    const { models } = serveSchema.parse({
      models: { a: "./a.gguf", b: { engine: "llama", name: "./a.gguf", precision: "exact" } },
    });
    const precisions = Object.values(models).map(({ model }) => {
      const online = describeEngine(model).forOnline!(model);
      return "precision" in online ? online.precision : undefined;
    });
    expect(precisions).toEqual(["fast", "exact"]);
  });
});

describe("the text of a model", () => {
  it("names the engine, its model, and the task where there are several", () => {
    const { models } = serveSchema.parse({
      models: { e: "transformers:feature-extraction:./minilm", o: "openvino:b", l: "./c.gguf" },
    });
    expect(models).toMatchObject({
      e: { model: { engine: "transformers", task: "feature-extraction", name: "./minilm" } },
      o: { model: { engine: "openvino", name: "b" } },
      l: { model: { engine: "llama", name: "./c.gguf" } },
    });
    const { error } = serveSchema.safeParse({ models: { e: "transformers:hf:owner/name" } });
    expect(error!.issues[0]).toMatchObject({ path: ["models", "e", "model", "task"] });
  });
});
