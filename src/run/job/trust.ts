import { isBelow } from "../../data/sources/beside-file.ts";
import { fixedFolder } from "../../data/sources/glob.ts";
import { schemeOf } from "../../data/storage/open.ts";
import type { ModelOptions } from "../../engines/model-options.ts";
import { isModelPath } from "../../engines/models/model-path.ts";
import { describeEngine } from "../../engines/registry.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { assertWithin } from "../../foundation/reach.ts";

interface Trusted {
  trust?: "job" | "data" | undefined;
  model: ModelOptions;
  allow?: { folders?: string[] | undefined; privateNetworks?: boolean | undefined } | undefined;
  slurm?: Readonly<Record<string, unknown>> | undefined;
  ray?: Readonly<Record<string, unknown>> | undefined;
  kubernetes?: object | undefined;
  sky?: object | undefined;
  codeEngine?: object | undefined;
}

/** What a job with `trust: data` must not hold: keys with their faults. */
export function trustProblems({
  trust,
  model,
  allow,
  slurm,
  ray,
  ...clouds
}: Trusted): [key: string, message: string][] {
  if (trust !== "data") return [];
  const { executes, servers } = describeEngine(model);
  const problems: [string, string][] = [];
  const [executed] = executes?.(model) ?? [];
  if (executed !== undefined) {
    problems.push(["model", `trust: data executes nothing, and this executes ${executed}`]);
  }
  for (const key of ["setup", "command", "extra", "output"]) {
    if (slurm?.[key] === undefined) continue;
    problems.push([`slurm.${key}`, "trust: data executes nothing, and this is for a shell"]);
  }
  for (const key of ["python", "runtimeEnv"]) {
    if (ray?.[key] === undefined) continue;
    problems.push([`ray.${key}`, "trust: data executes nothing, and this starts programs"]);
  }
  for (const key of ["kubernetes", "sky", "codeEngine"] as const) {
    if (clouds[key] === undefined) continue;
    problems.push([key, "trust: data executes nothing, and this starts machines or images"]);
  }
  for (const address of servers?.(model) ?? []) {
    try {
      assertWithin(new URL(address), allow?.privateNetworks ?? false);
    } catch (thrown) {
      problems.push(["model", `trust: data: ${asSluiceError(thrown).message}`]);
    }
  }
  return problems;
}

/** The parts of a job that name places. */
interface Placed extends Trusted {
  input: readonly { path: string }[];
  output: { path: string; errorFile?: string | undefined };
  cache?: { path: string } | undefined;
  preparedDir?: string | undefined;
}

/** Keys that extend what a job may do, if they are in a job file. */
const widening = ["allow", "store.endpoint", "env", "apiKeyEnv", "ray.address"] as const;

/**
 * Values that a caller who does not trust the job file must give with flags or variables.
 *
 * @param file the values of the job file alone.
 * @returns keys with their faults.
 */
export function widenedProblems(file: JsonObject): [key: string, message: string][] {
  const { allow, store, env, model, ray } = file;
  const given: Record<(typeof widening)[number], boolean> = {
    allow: allow !== undefined,
    "store.endpoint": isJsonObject(store) && store.endpoint !== undefined,
    env: env !== undefined,
    "ray.address": isJsonObject(ray) && ray.address !== undefined,
    apiKeyEnv: hasKey(model ?? null, "apiKeyEnv"),
  };
  return widening.flatMap((name): [string, string][] => {
    const key = name === "apiKeyEnv" ? "model.apiKeyEnv" : name;
    const message = "is for you to say, by a flag: the job file is not trusted";
    return given[name] ? [[key, message]] : [];
  });
}

function hasKey(value: Json, key: string): boolean {
  if (Array.isArray(value)) return value.some((each) => hasKey(each, key));
  if (!isJsonObject(value)) return false;
  return Object.hasOwn(value, key) || Object.values(value).some((each) => hasKey(each, key));
}

/**
 * Places that a job file names, and that a caller who does not trust it has not named.
 *
 * @param isOfFile true for values of the job file, and for defaults.
 * @returns keys with their faults.
 */
export function misplacedProblems(
  job: Placed,
  isOfFile: (key: string) => boolean,
): [key: string, message: string][] {
  const folders = job.allow?.folders ?? [];
  const why = "lies in no folder that --allow.folders names: the job file is not trusted";
  return places(job).flatMap(([key, place]): [string, string][] => {
    const isNamed =
      /^https?:/i.test(place) || folders.some((folder) => isBelow(`${place}/x`, folder));
    return isNamed || !isOfFile(key) ? [] : [[key, `${place} ${why}`]];
  });
}

/** Where a job reads and writes: files and folders, here and in stores. */
function places({ input, output, cache, preparedDir, model }: Placed): [string, string][] {
  const named: [string, string | undefined][] = [
    ...input.map(({ path }, at): [string, string] => [`input.${at}.path`, fixedPlace(path)]),
    ["output.path", fixedPlace(output.path)],
    ["output.errorFile", output.errorFile],
    ["cache.path", cache?.path],
    ["preparedDir", preparedDir],
    ...modelsIn(model).flatMap(({ name = "", lora = [], countFile }): typeof named => [
      ["model.name", isModelPath(name) || name.startsWith("file:") ? name : undefined],
      ["model.countFile", countFile],
      ...lora.map(({ path }): [string, string] => ["model.lora", path]),
    ]),
  ];
  return named.filter((each): each is [string, string] => each[1] !== undefined && each[1] !== "-");
}

interface PlacedModel {
  name?: string | undefined;
  lora?: readonly { path: string }[] | undefined;
  countFile?: string | undefined;
}

function modelsIn(model: ModelOptions): PlacedModel[] {
  if (model.engine !== "pipeline") return [model];
  return model.stages.flatMap((stage) => (stage.model as PlacedModel | undefined) ?? []);
}

/** A glob's folder; any other path itself. */
function fixedPlace(path: string): string {
  return schemeOf(path) === undefined && /[*?[{(]/.test(path) ? fixedFolder(path) : path;
}
