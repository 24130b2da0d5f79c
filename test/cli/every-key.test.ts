import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Command } from "commander";
import { describe, expect, it } from "vitest";
import { declareJobOptions, jobFromOptions } from "../../src/cli/job-options.ts";
import { isJsonObject, type Json, type JsonObject } from "../../src/foundation/json.ts";
import { type JobKey, jobKeys } from "../../src/run/job/keys.ts";
import { formsOf, nodesAt, type SchemaNode } from "../../src/run/job/schema-tree.ts";
import { jobFolder } from "../run/job/job-folder.ts";

const { folder } = jobFolder();
const here = { environment: {}, workingDirectory: folder };

/** What JSON Schema says of a place, beyond what the program reads of it. */
interface Bounded extends SchemaNode {
  minimum?: number;
  exclusiveMinimum?: number;
  minItems?: number;
  minLength?: number;
  required?: string[];
}

/** Values of keys of which the schema cannot say all that they need. */
const given: Readonly<Record<string, Json>> = {
  "input.delimiter": ";",
  "input.encoding": "windows-1252",
  "model.baseUrl": "http://127.0.0.1:1/v1",
  "model.endpoints.N.baseUrl": "http://127.0.0.1:1/v1",
  "model.apiKeyEnv": "API_KEY",
  "model.mounts.N.path": "/input",
  "model.stages.N": { kind: "select", columns: ["text"] },
  "store.endpoint": "http://127.0.0.1:1",
  "ray.address": "head:6379",
  "slurm.extra.N": "--exclusive",
  ...Object.fromEntries(
    ["namespace", "queue", "priorityClass", "serviceAccount", "imagePullSecrets.N"].map((key) => [
      `kubernetes.${key}`,
      "team",
    ]),
  ),
  "kubernetes.volumes.N": { path: "/data", claim: "data" },
  "kubernetes.envFrom.N": { secret: "keys" },
  "sky.secrets.N": "HF_TOKEN",
  "codeEngine.mounts": { "/models": "models:/llm" },
  "slurm.timeLimit": "1-12",
  "workers.memory": "1.5G",
};

/** Texts of keys that take one as a short form of their object. */
const shortForms: Readonly<Record<string, string>> = {
  dataset: "path=rows.jsonl,type=alpaca",
  generation: "topP=0.5,seed=3",
  input: "other.jsonl",
};

/** A value of each form that a place may take. */
function examples(node: Bounded, path: string): Json[] {
  if (given[path] !== undefined) return [given[path]];
  return formsOf(node).flatMap((form: Bounded): Json[] => {
    if (form.const !== undefined) return [form.const];
    if (form.enum) return [...form.enum];
    if (form.items) {
      const items = examples(form.items, `${path}.N`);
      return [
        Array.from({ length: form.minItems ?? 1 }, (_, at) => items[at % items.length]!),
        items,
      ];
    }
    if (form.properties) return [objectOf(form, path)];
    if (form.additionalProperties !== undefined) {
      const [value = "x"] =
        typeof form.additionalProperties === "object"
          ? examples(form.additionalProperties, `${path}.NAME`)
          : [];
      return [{ name: value }];
    }
    return [form.type].flat().flatMap((type) => scalars(form, type, path));
  });
}

function scalars(form: Bounded, type: string | undefined, path: string): Json[] {
  const least = form.minimum ?? (form.exclusiveMinimum === undefined ? 1 : form.exclusiveMinimum);
  if (type === "boolean") return [true, false];
  if (type === "integer") return [Math.max(least, 2)];
  if (type === "number") return [Math.max(least, 0) + 0.5];
  if (type === "null") return [];
  return [shortForms[path] ?? "some words, more"];
}

/** An object with the keys that it must have, or with its first one. */
function objectOf(form: Bounded, path: string): JsonObject {
  const names = Object.keys(form.properties!);
  const wanted = form.required ?? names.slice(0, 1);
  return Object.fromEntries(
    wanted.map((name) => [name, examples(form.properties![name]!, `${path}.${name}`)[0]!]),
  );
}

/** What a key needs besides, by its beginning; `null` = without. */
const beside: readonly [beginning: string, others: JsonObject][] = [
  ["input.prefixes", { input: { list: true } }],
  ["dataset", { input: null, prompt: null, dataset: { path: "rows.jsonl", type: "alpaca" } }],
  ["cache.", { cache: { path: "cache" } }],
  ["prompts", { prompt: null }],
  ["prompt.messages", { prompt: { prompt: null } }],
  ["prompt.type", { prompt: { prompt: null } }],
  ["prompt.typeOptions", { prompt: { prompt: null, type: "sharegpt" } }],
  ["prompt.turns", { prompt: { prompt: null, type: "sharegpt" } }],
  ["prompt.answer", { prompt: { answer: { line: "a={name}", slots: { name: {} } } } }],
  ["prompt.file", { prompt: { prompt: null, api: "transcription" } }],
  ["generation.numReturnSequences", { generation: { temperature: 0.5 } }],
  ["generation.lengthPenalty", { generation: { numBeams: 2 } }],
  ["generation.earlyStopping", { generation: { numBeams: 2 } }],
  ["model.latencyMs.max", { model: { latencyMs: { min: 0.2, max: 0.8 } } }],
  ["model.latencyMs.min", { model: { latencyMs: { min: 0.2, max: 0.8 } } }],
  ["model.array.", { model: { array: { count: 2, min: 0, max: 1 } } }],
  ["model.batch", { model: { via: "batch" } }],
  ["model.batchTokens", { model: { via: null } }],
  ["model.resources", { model: { stages: [{ kind: "select", columns: ["text"] }] } }],
  ["budget.usd", { prices: { promptUsdPerMillion: 1, completionUsdPerMillion: 1 } }],
  ["slurm", { backend: "slurm", workers: { max: 2 } }],
  ["ray", { backend: "ray" }],
  ["kubernetes", { backend: "kubernetes", workers: { max: 2 }, kubernetes: { image: "i" } }],
  ["sky", { backend: "sky", workers: { max: 2 } }],
  ["sky.command", { sky: { software: "installed" } }],
  [
    "codeEngine",
    {
      backend: "code-engine",
      workers: { max: 2 },
      codeEngine: { image: "i", stateStore: "s", subnetPool: "p" },
    },
  ],
  ["workers.min", { backend: "ray" }],
  ["prices.", { prices: { promptUsdPerMillion: 1, completionUsdPerMillion: 1 } }],
];

/** A job of an engine in which the key may stand. */
function baseOf(path: string, engine: string): JsonObject {
  const forms = nodesAt(["model"]).flatMap(formsOf) as Bounded[];
  const form = forms.find(({ properties }) => properties?.engine?.const === engine)!;
  const base = {
    input: { path: "rows.jsonl" },
    model: { ...objectOf(form, "model"), engine },
    prompt: { prompt: "{{ text }}" },
  };
  return beside
    .filter(([beginning]) => path.startsWith(beginning))
    .reduce<JsonObject>((job, [, others]) => over(job, others), base);
}

function over(job: JsonObject, others: JsonObject): JsonObject {
  const merged = { ...job };
  for (const [key, value] of Object.entries(others)) {
    const known = merged[key];
    if (value === null) delete merged[key];
    else merged[key] = isJsonObject(value) ? over(isJsonObject(known) ? known : {}, value) : value;
  }
  return merged;
}

const asText = (value: Json) => (typeof value === "string" ? value : JSON.stringify(value));

/** The job as it is, or why there is none, without the place that said so. */
async function outcome(
  base: JsonObject,
  args: readonly string[],
  environment: Record<string, string>,
): Promise<unknown> {
  writeFileSync(join(folder, "job.json"), JSON.stringify(base));
  const words = ["-c", "job.json", ...args];
  const command = declareJobOptions(new Command("run"), here, words).exitOverride();
  let options: Record<string, unknown> = {};
  command.action((_, given: Record<string, unknown>) => {
    options = given;
  });
  await command.parseAsync(words, { from: "user" });
  try {
    return (await jobFromOptions(options, { environment, workingDirectory: folder })).job;
  } catch (error) {
    return String(error);
  }
}

function withKey(base: JsonObject, path: readonly string[], value: Json): JsonObject {
  const [first = "", ...rest] = path;
  const inner = base[first];
  const below = isJsonObject(inner) ? inner : {};
  return { ...base, [first]: rest.length === 0 ? value : withKey(below, rest, value) };
}

const keys = jobKeys().filter(({ environment }) => environment !== undefined);

/** Texts beside keys that refuse some of their values without. */
const needs: Readonly<Record<string, JsonObject>> = {
  "backend slurm": { workers: { max: 2 } },
  "backend kubernetes": { workers: { max: 2 }, kubernetes: { image: "i" } },
  "backend sky": { workers: { max: 2 } },
  "backend code-engine": {
    workers: { max: 2 },
    codeEngine: { image: "i", stateStore: "s", subnetPool: "p" },
  },
  "input.format openai-batch": { prompt: null },
  "output.compression snappy": { output: { format: "parquet" } },
  "prompt.api transcription": { prompt: { prompt: null, file: "{{ path }}" } },
};

/** Short options have words of their own: `--env NAME=value`, `--model NAME`. */
const hasOwnWords = ({ path }: JobKey, value: Json) =>
  path === "env" || (path === "model" && typeof value !== "string");

interface Ways {
  file: unknown;
  variable: unknown;
  set: unknown;
  flag: unknown;
}

/** What becomes of a value that is given in each way, with an engine that takes it. */
async function everyWay(key: JobKey, value: Json): Promise<Ways> {
  const text = asText(value);
  // A look at a few rows goes to an output of its own, unless that is named too.
  const more = ["limit", "sample"].includes(key.path) ? ["--output", "out"] : [];
  let base: JsonObject = {};
  let file: unknown;
  for (const engine of key.engines.length > 0 ? key.engines : ["fake"]) {
    base = baseOf(key.path, key.path === "model.engine" ? text : engine);
    base = over(base, needs[`${key.path} ${text}`] ?? {});
    file = await outcome(withKey(base, key.path.split("."), value), more, {});
    if (!isRefused(file)) break;
  }
  const set = await outcome(base, ["--set", `${key.path}=${text}`, ...more], {});
  return {
    file,
    set,
    variable: await outcome(base, more, { [key.environment!]: text }),
    flag: hasOwnWords(key, value)
      ? set
      : await outcome(base, [`--${key.path}=${text}`, ...more], {}),
  };
}

const isRefused = (found: unknown) => typeof found === "string";

describe("every key of the schema", () => {
  it("has the same effect by file, variable, --set and flag", async () => {
    const refused: string[] = [];
    const differing: unknown[] = [];
    let values = 0;
    for (const key of keys) {
      const nodes = nodesAt(key.path.split("."));
      const found = nodes.flatMap((node) => examples(node, key.path));
      const distinct = new Map(found.map((value) => [JSON.stringify(value), value]));
      expect(distinct.size, key.path).toBeGreaterThan(0);
      for (const value of distinct.values()) {
        values++;
        const { file, ...others } = await everyWay(key, value);
        if (isRefused(file)) refused.push(`${key.path} ${asText(value)}: ${file}`);
        for (const [way, other] of Object.entries(others)) {
          if (!isDeepStrictEqual(other, file)) {
            differing.push({ key: key.path, value, way, other, file });
          }
        }
      }
    }
    expect(differing).toEqual([]);
    expect(refused).toEqual([]);
    expect(values).toBeGreaterThan(350);
  }, 120_000);
});
