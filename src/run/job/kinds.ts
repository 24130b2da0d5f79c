import { isDeepStrictEqual } from "node:util";
import { canonicalJson, isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import type { SettingKind } from "../../foundation/setting.ts";
import { withGenerationDefaults } from "./generation.ts";
import type { JobSpec } from "./schema.ts";
import { formOf, formsOf, type SchemaNode, schemaTree, stepInto } from "./schema-tree.ts";

/** One value of a job, and how its change affects a run that already has answers. */
export interface KindedValue {
  path: readonly string[];
  value: Json;
  kind: SettingKind;
}

/**
 * Every value of a job that is not an object, with its kind; a list counts as one value if the
 * schema does not describe its elements. A key without a kind in the schema has that of the object
 * around it.
 */
export function settingKinds(job: JobSpec): readonly KindedValue[] {
  const found: KindedValue[] = [];
  visit(job as unknown as Json, schemaTree(), [], "operation", found);
  return found;
}

function visit(
  value: Json,
  node: SchemaNode,
  path: readonly string[],
  inherited: SettingKind,
  found: KindedValue[],
): void {
  const kind = node.kind ?? inherited;
  const form = formOf(node, value);
  const isList = Array.isArray(value) && formsOf(form?.items ?? {}).some((item) => item.properties);
  if (!isJsonObject(value) && !isList) {
    found.push({ path, value, kind });
    return;
  }
  for (const [key, inner] of Object.entries(value as JsonObject)) {
    if (inner === undefined) continue;
    const [below = {}] = form ? stepInto(form, key) : [];
    visit(inner, below, [...path, key], kind, found);
  }
}

/** The part of a job that decides the answers: with another value it is another run. */
export function answersOf(job: JobSpec): JsonObject {
  const picked: JsonObject = {};
  for (const { path, value, kind } of settingKinds(job)) {
    if (kind !== "answers") continue;
    let target = picked;
    for (const key of path.slice(0, -1)) {
      target[key] ??= {};
      target = target[key] as JsonObject;
    }
    target[path.at(-1)!] = value;
  }
  return picked;
}

/**
 * The dotted keys that make `current` give other answers than `stored`, sorted. If the current job
 * leaves the seed open, the drawn one counts.
 *
 * @example
 * differingAnswers(plan.job, job); // ["generation.temperature", "prompts.measures.prompt"]
 */
export function differingAnswers(stored: JobSpec, current: JobSpec): string[] {
  // The usual case, for which a worker need not read the schema.
  if (isDeepStrictEqual(stored, current)) return [];
  const before = answersByKey(stored);
  const after = answersByKey(current);
  if (!after.has("generation.seed")) before.delete("generation.seed");
  const keys = new Set([...before.keys(), ...after.keys()]);
  return [...keys].filter((key) => before.get(key) !== after.get(key)).sort();
}

function answersByKey(job: JobSpec): Map<string, string> {
  return valuesByKey(job, ["answers"]);
}

/** The dotted keys of some kinds whose values differ, sorted. */
export function differingKeys(
  stored: JobSpec,
  current: JobSpec,
  kinds: readonly SettingKind[],
): string[] {
  const [before, after] = [stored, current].map((job) => valuesByKey(job, kinds)) as [
    Map<string, string>,
    Map<string, string>,
  ];
  const keys = new Set([...before.keys(), ...after.keys()]);
  return [...keys].filter((key) => before.get(key) !== after.get(key)).sort();
}

function valuesByKey(job: JobSpec, kinds: readonly SettingKind[]): Map<string, string> {
  // A written default is the same as an absent one.
  const complete = { ...job, generation: withGenerationDefaults(job.generation) };
  const values = settingKinds(complete).filter(({ kind }) => kinds.includes(kind));
  return new Map(values.map(({ path, value }) => [path.join("."), canonicalJson(value)]));
}
