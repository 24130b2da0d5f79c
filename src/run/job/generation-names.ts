import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { generationKeys } from "./generation-schema.ts";
import type { Origin } from "./problem.ts";
import { nodesAt } from "./schema-tree.ts";
import { readPairs, scalarFromText } from "./value-text.ts";

/** Others' names that differ from ours in snake case. */
const foreign: Readonly<Record<string, string>> = { stop_strings: "stop" };

/**
 * Our key of `generation` by its name in Hugging Face and Axolotl: `max_new_tokens` →
 * `maxNewTokens`.
 */
export const otherGenerationNames: ReadonlyMap<string, string> = new Map([
  ...generationKeys.flatMap((key) => {
    const name = key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    return name === key ? [] : [[name, key] as const];
  }),
  ...Object.entries(foreign),
]);

/** Keys of the job itself by Axolotl's names. */
export const otherRootNames: ReadonlyMap<string, string> = new Map([
  ["sequence_len", "sequenceLen"],
  ["truncate_features", "truncateFeatures"],
]);

/** All names of a key of the job, its own first. */
export function namesOfKey(path: readonly string[]): readonly string[] {
  const key = path.at(-1)!;
  const isOfGeneration = path[0] === "generation" && path.length === 2;
  if (!isOfGeneration && path.length > 1) return [key];
  const all = isOfGeneration ? otherGenerationNames : otherRootNames;
  const others = [...all].filter(([, own]) => own === key);
  return [key, ...others.map(([name]) => name)];
}

/** A value of a job, and its destination. */
export type Placed = readonly [path: readonly string[], value: Json];

/**
 * Translates the layers' values of `generation` into our names. A key that one layer gives under
 * two names keeps the other name, so that the schema refuses it.
 */
export class GenerationNames {
  readonly #ownNames = new OwnNames(otherGenerationNames);

  /** @param path begins with `generation`. */
  translate(path: readonly string[], value: Json, { from }: Origin): readonly Placed[] {
    const [root = "", name, ...below] = path;
    if (name !== undefined) return [[[root, this.#ownNames.of(name, from), ...below], value]];
    if (typeof value === "string") {
      const entries = Object.entries(valuesOf(value) ?? {});
      if (entries.length === 0) return [[path, value]];
      return entries.map(
        ([given, inner]) => [[root, this.#ownNames.of(given, from)], inner] as const,
      );
    }
    if (!isJsonObject(value)) return [[path, value]];
    this.#ownNames.forget();
    const named = Object.entries(value).map(
      ([given, inner]) => [this.#ownNames.of(given, from), inner] as const,
    );
    return [[path, Object.fromEntries(named)]];
  }
}

/**
 * Reads `temperature=0.5,top_k=20`. Values have the type of the schema. Several `stop` form a list;
 * any other key may come once.
 *
 * @returns undefined if the text is not such a list.
 */
function valuesOf(text: string): JsonObject | undefined {
  const read: JsonObject = {};
  for (const { name, text: given, isQuoted } of readPairs(text) ?? []) {
    const value = isQuoted ? given : scalarFromText(given, nodesAt(["generation", name]));
    const known = read[name];
    if (known === undefined) read[name] = value;
    else if (otherGenerationNames.get(name) === "stop" || name === "stop") {
      read[name] = [known, value].flat();
    } else return undefined;
  }
  return read;
}

/**
 * Our names for keys with other names elsewhere. A key that one layer of a job gives under two
 * names keeps the other name, so that the schema refuses it.
 */
export class OwnNames {
  readonly #ownByOther: ReadonlyMap<string, string>;
  readonly #spellings = new Map<string, { name: string; from: Origin["from"] }>();

  constructor(ownByOther: ReadonlyMap<string, string>) {
    this.#ownByOther = ownByOther;
  }

  /** The final name of a layer's key. */
  of(name: string, from: Origin["from"]): string {
    const own = this.#ownByOther.get(name) ?? name;
    const known = this.#spellings.get(own);
    if (known === undefined || known.from !== from || known.name === name) {
      this.#spellings.set(own, { name, from });
      return own;
    }
    return name === own ? known.name : name;
  }

  /** Called if a layer gives all keys at once: they replace the earlier ones. */
  forget(): void {
    this.#spellings.clear();
  }
}
