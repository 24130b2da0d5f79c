import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { GenerationNames, OwnNames, otherRootNames } from "./generation-names.ts";
import type { Origin } from "./problem.ts";
import { nodesAt } from "./schema-tree.ts";
import { readPairs, scalarFromText } from "./value-text.ts";

/** Keys that may be a text, and the key of the object that it stands for. */
const keysOfTexts: Readonly<Record<string, string>> = {
  input: "path",
  prompt: "prompt",
  output: "path",
};

/** Pairs of keys: a later layer replaces one by the other. */
const rivals: ReadonlyMap<string, readonly string[]> = new Map([
  ["input", ["dataset"]],
  ["dataset", ["input", "prompt", "prompts"]],
  ["prompt", ["prompts", "dataset"]],
  ["prompts", ["prompt", "dataset"]],
  ["generation.maxNewTokens", ["generation.maxLength"]],
  ["generation.maxLength", ["generation.maxNewTokens"]],
  ["shard.rows", ["shard.count"]],
  ["shard.count", ["shard.rows"]],
]);

const unset: Origin = Object.freeze({ from: "default" });

/**
 * A job while its layers (file, environment, flags) are combined. It remembers where each value
 * came from.
 */
export class JobDraft {
  readonly value: JsonObject = {};
  readonly #origins = new Map<string, Origin>();
  readonly #generationNames = new GenerationNames();
  readonly #rootNames = new OwnNames(otherRootNames);

  /** Sets the value at a path; null restores the default. */
  set(given: readonly string[], value: Json, origin: Origin): void {
    const [first = "", ...below] = given;
    const path = [this.#rootNames.of(first, origin.from), ...below];
    if (given.join(".") === "dataset") return this.#place(path, readDatasets(value), origin);
    if (first !== "generation") return this.#place(path, value, origin);
    for (const [own, inner] of this.#generationNames.translate(path, value, origin)) {
      this.#place(own, inner, own.length > path.length ? partOf(origin, own.at(-1)!) : origin);
    }
  }

  #place(path: readonly string[], value: Json, origin: Origin): void {
    for (const rival of rivals.get(path[0]!) ?? rivals.get(dotted(path)) ?? []) {
      this.#dropRival(rival, origin);
    }
    let target: JsonObject | Json[] = this.value;
    for (const [depth, key] of path.slice(0, -1).entries()) {
      target = enter(target, key, path.slice(0, depth + 1));
    }
    // A list with one object may be addressed as if it were that object.
    if (Array.isArray(target) && !/^\d+$/.test(path.at(-1)!)) target = onlyElement(target);
    assign(target, path.at(-1)!, value, path);
    this.#remember(dotted(path), origin);
  }

  /** The origin of the value at a path: the last layer that set it or an object around it. */
  originOf(path: readonly string[]): Origin {
    for (let length = path.length; length > 0; length--) {
      const origin = this.#origins.get(dotted(path.slice(0, length)));
      if (origin) return origin;
    }
    return unset;
  }

  /** A layer with `prompt` replaces `prompts` of the layers below, and the reverse. */
  #dropRival(rival: string, origin: Origin): void {
    // Both in one layer is a mistake, which the schema reports.
    if (this.#isOfLayer(rival, origin)) return;
    const [first = "", second] = rival.split(".");
    if (second === undefined) delete this.value[first];
    else if (isJsonObject(this.value[first])) delete this.value[first][second];
    this.#remember(rival, unset);
  }

  #isOfLayer(key: string, { from }: Origin): boolean {
    const known = [...this.#origins].filter(([at]) => at === key || at.startsWith(`${key}.`));
    if (known.length === 0) return this.originOf(key.split(".")).from === from;
    return known.some(([, origin]) => origin.from === from);
  }

  #remember(key: string, origin: Origin): void {
    for (const known of this.#origins.keys()) {
      if (known.startsWith(`${key}.`)) this.#origins.delete(known);
    }
    this.#origins.set(key, origin);
  }
}

/** The origin of one value in a text with several. */
function partOf(origin: Origin, key: string): Origin {
  return "name" in origin ? { ...origin, name: `${origin.name} ${key}` } : origin;
}

/** `input.path` and `input.0.path` are one place: a single input may be alone or in a list. */
function dotted(path: readonly string[]): string {
  return path.join(".").replace(/^input\.0\./, "input.");
}

function enter(
  target: JsonObject | Json[],
  key: string,
  path: readonly string[],
): JsonObject | Json[] {
  const holder = Array.isArray(target) && !/^\d+$/.test(key) ? onlyElement(target) : target;
  const slots = holder as JsonObject;
  const inner = slots[key];
  if (typeof inner === "object" && inner !== null) return inner;
  const long = path[0] === "prompts" && path.length === 2 ? "prompt" : keysOfTexts[path.join(".")];
  const created: JsonObject = typeof inner === "string" && long ? { [long]: inner } : {};
  slots[key] = created;
  return created;
}

function onlyElement(list: Json[]): JsonObject {
  const [only] = list;
  if (list.length === 1 && typeof only === "string") {
    const expanded = { path: only };
    list[0] = expanded;
    return expanded;
  }
  if (list.length === 1 && isJsonObject(only)) return only;
  throw new RangeError("it is a list of several: name one by its index, as input.0.path");
}

function assign(
  target: JsonObject | Json[],
  key: string,
  value: Json,
  path: readonly string[],
): void {
  if (Array.isArray(target)) {
    const index = Number(key);
    if (index > target.length) throw new RangeError(`the list has only ${target.length} entries`);
    target[index] = value;
    return;
  }
  // `env: {NAME: null}` means the caller's value; anywhere else, null means an absent value.
  if (value === null && path[0] !== "env") delete target[key];
  else target[key] = value;
}

/**
 * The value of `dataset`, with texts such as `name=Sample,path=rows.jsonl,type=alpaca` parsed. Any
 * other text stays, and the schema refuses it.
 */
function readDatasets(value: Json): Json {
  if (typeof value === "string") return readDataset(value) ?? value;
  if (!Array.isArray(value)) return value;
  return value.map((entry) => (typeof entry === "string" ? (readDataset(entry) ?? entry) : entry));
}

function readDataset(text: string): JsonObject | undefined {
  const pairs = readPairs(text) ?? [];
  const entry: JsonObject = {};
  for (const { name, text: given, isQuoted } of pairs) {
    if (entry[name] !== undefined) return undefined;
    entry[name] = isQuoted ? given : scalarFromText(given, nodesAt(["dataset", "0", name]));
  }
  return pairs.length === 0 ? undefined : entry;
}
