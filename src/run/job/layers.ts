import { insideImageVariable } from "../../engines/engine.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type Json } from "../../foundation/json.ts";
import { nearest, nearestKey } from "../../foundation/suggest.ts";
import type { JobDraft } from "./draft.ts";
import type { JobFile } from "./job-file.ts";
import { jobKeys } from "./keys.ts";
import type { Origin, Problem } from "./problem.ts";
import { formsOf, namesBelow, nodesAt, type SchemaNode } from "./schema-tree.ts";
import { modelFromName, valueFromText } from "./value-text.ts";
import { asLiteral } from "./worker-variables.ts";

/** Variables of Sluice that are not keys of the job. */
export const reservedVariables: readonly string[] = Object.freeze([
  "SLUICE_HOME",
  "SLUICE_CONFIG",
  "SLUICE_MODEL_PATH",
  "SLUICE_DEVICE",
  "SLUICE_FLEETS",
  insideImageVariable,
  "SLUICE_RAY_JOB",
  "SLUICE_RAY_FILES",
  // A program of a model, or on a worker of Ray, may call Sluice.
  "SLUICE_REPLICA",
  "SLUICE_RAY_ACTOR",
  "SLUICE_RAY_NODE",
]);

/**
 * The flags of a command line, by name without dashes: one that `--help` lists by itself, such as
 * `base-url`, or a key of the schema. `prompt-file` has the text of the file.
 */
export type JobFlags = Readonly<Record<string, string | boolean | readonly string[] | undefined>>;

/** Flags with a name that differs from their key. */
export const keysOfFlags: Readonly<Record<string, string>> = Object.freeze({
  "base-url": "model.baseUrl",
  seed: "generation.seed",
});

/** Lays the job file over the defaults. */
export function applyFile(draft: JobDraft, file: JobFile): void {
  for (const [key, value] of Object.entries(file.value)) draft.set([key], value, file.origin);
}

/** Lays the variables `SLUICE_<KEY>` over the lower layers. */
export async function applyEnvironment(
  draft: JobDraft,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Problem[]> {
  const names = Object.keys(environment).filter(isOurs).sort();
  if (names.length === 0) return [];
  const paths = new Map<string, string>();
  for (const key of jobKeys()) if (key.environment) paths.set(key.environment, key.path);
  const problems: Problem[] = [];
  for (const name of names) {
    const text = environment[name];
    const path = paths.get(name);
    const origin: Origin = { from: "environment", name };
    if (path === undefined) {
      const meant = nearestKey(name, [...paths.keys(), ...reservedVariables], "__");
      problems.push(unknown(origin, "is not a setting of a job", meant));
    } else if (text) {
      problems.push(...(await applyText(draft, path, text, origin)));
    }
  }
  return problems;
}

// Kubernetes sets these in every pod of a namespace with a service named "sluice".
const serviceVariable = /_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)$/;

// A program of a fleet may call Sluice.
const taskVariable = /^SLUICE_(TASK|MOUNT)_/;

function isOurs(name: string): boolean {
  if (!name.startsWith("SLUICE_") || reservedVariables.includes(name)) return false;
  return !serviceVariable.test(name) && !taskVariable.test(name);
}

/** Lays flags over the lower layers: the listed ones first, then those of one key, then `--set`. */
export async function applyFlags(
  draft: JobDraft,
  flags: JobFlags,
  sets: readonly string[],
): Promise<Problem[]> {
  const problems: Problem[] = [];
  const isDotted = (name: string) => name.includes(".");
  const names = Object.keys(flags).sort((a, b) => Number(isDotted(a)) - Number(isDotted(b)));
  for (const name of names) {
    const given = flags[name];
    if (given === undefined) continue;
    const origin: Origin = { from: "flag", name: `--${name}` };
    const texts = [given].flat().map(String);
    if (name === "env") applyEnv(draft, texts);
    else if (name === "untrusted") draft.set(["trust"], "data", origin);
    else if (name === "prompt-file") draft.set(["prompt"], texts[0]!, origin);
    else if (name === "dataset" && texts.length > 1) draft.set(["dataset"], texts, origin);
    else if (name === "input-list") applyLists(draft, texts, flags.input);
    else if (name === "input" && flags["input-list"] !== undefined) continue;
    else if (name === "input" && texts.length > 1) {
      draft.set(
        ["input"],
        texts.map((path) => ({ path })),
        origin,
      );
    } else {
      const path = keysOfFlags[name] ?? name;
      problems.push(...(await applyText(draft, path, texts.at(-1)!, origin, flags)));
    }
  }
  for (const text of sets) problems.push(...(await applySet(draft, text)));
  return problems;
}

/** Lists of files, after the files that are named individually. */
function applyLists(draft: JobDraft, lists: readonly string[], input: JobFlags[string]): void {
  const files = input === undefined ? [] : [input].flat().map(String);
  const sources = [
    ...files.map((path) => ({ path })),
    ...lists.map((path) => ({ path, list: true })),
  ];
  draft.set(["input"], sources, { from: "flag", name: "--input-list" });
}

function applyEnv(draft: JobDraft, texts: readonly string[]): void {
  for (const text of texts) {
    const [, name = text, value] = /^([^=]*)=(.*)$/s.exec(text) ?? [];
    draft.set(["env", name], value === undefined ? null : asLiteral(value), {
      from: "flag",
      name: `--env ${name}`,
    });
  }
}

async function applySet(draft: JobDraft, text: string): Promise<Problem[]> {
  const [, path, value] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  const origin: Origin = { from: "flag", name: `--set ${path ?? text}` };
  if (path === undefined || value === undefined) {
    return [{ code: "USAGE", path: [], message: "write it as --set key=value", origin }];
  }
  return applyText(draft, path, value, origin);
}

async function applyText(
  draft: JobDraft,
  dotted: string,
  text: string,
  origin: Origin,
  flags: JobFlags = {},
): Promise<Problem[]> {
  const path = dotted.split(".");
  const nodes = nodesAt(path);
  if (nodes.length === 0) return [unknownKey(path, origin)];
  try {
    if (dotted === "model") applyModel(draft, await modelFromText(text, flags), origin);
    else {
      const value = await valueFromText(text, formsForText(dotted, text, nodes));
      // A path keeps the output's other keys.
      const isOutputPath = dotted === "output" && typeof value === "string";
      draft.set(isOutputPath ? ["output", "path"] : path, value, origin);
    }
    return [];
  } catch (thrown) {
    const isOfList = thrown instanceof RangeError;
    const { code, message } = isOfList
      ? ({ code: "USAGE", message: thrown.message } as const)
      : asSluiceError(thrown);
    return [{ code, path, message, origin }];
  }
}

/** A text is one form of `generation`; a text in braces can only be its other form. */
function formsForText(dotted: string, text: string, nodes: readonly SchemaNode[]) {
  if (dotted !== "generation" || !text.trim().startsWith("{")) return nodes;
  return nodes.flatMap(formsOf).filter((form) => form.properties !== undefined);
}

/** `fake`, `openai:NAME`, a catalog name, a path, or a whole model as `{engine: …}`. */
async function modelFromText(text: string, flags: JobFlags): Promise<Json> {
  if (text.trim().startsWith("{")) return valueFromText(text, nodesAt(["model"]));
  const model = modelFromName(text);
  const isOfServer = flags["base-url"] !== undefined && model.name === text;
  return isOfServer ? { engine: "openai", name: text } : model;
}

/**
 * Another model of the same engine keeps that engine's settings; another engine starts without any.
 */
function applyModel(draft: JobDraft, model: Json, origin: Origin): void {
  const known = draft.value.model;
  const isSame = isJsonObject(known) && isJsonObject(model) && known.engine === model.engine;
  if (!isSame) return draft.set(["model"], model, origin);
  // What stays is still of its own layer, whose folder its paths start from.
  for (const [key, value] of Object.entries(model)) draft.set(["model", key], value, origin);
}

function unknownKey(path: readonly string[], origin: Origin): Problem {
  let depth = path.length - 1;
  while (depth > 0 && nodesAt(path.slice(0, depth)).length === 0) depth--;
  const above = path.slice(0, depth);
  const meant = nearest(path[depth]!, namesBelow(above));
  const corrected = meant === undefined ? [] : [...above, meant, ...path.slice(depth + 1)];
  const isKnown = corrected.length > 0 && nodesAt(corrected).length > 0;
  const suggestion = isKnown ? corrected : meant === undefined ? undefined : [...above, meant];
  return unknown(origin, `${path.join(".")} is not a key of a job`, suggestion?.join("."));
}

function unknown(origin: Origin, what: string, meant: string | undefined): Problem {
  return {
    code: "OPTION_UNKNOWN",
    path: [],
    message: meant === undefined ? what : `${what}; did you mean ${meant}?`,
    origin,
  };
}
