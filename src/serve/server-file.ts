import { dirname, resolve } from "node:path";
import { absoluteLocation } from "../data/storage/open.ts";
import { describeEngine } from "../engines/registry.ts";
import { errorTable } from "../foundation/error-table.ts";
import { SluiceError, wordedError } from "../foundation/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../foundation/json.ts";
import { readJobFile } from "../run/job/job-file.ts";
import { type Origin, problemsError, schemaProblems, withLine } from "../run/job/problem.ts";
import { modelFromName } from "../run/job/value-text.ts";
import { type ServeOptions, serveKeysAt, serveSchema } from "./options.ts";
import { mergedKeys } from "./torchserve/config-properties.ts";

/** What a command line says beside the file. */
export interface ServeFlags {
  /** Models as `NAME=SPEC` or `SPEC`. */
  models: readonly string[];
  /** Keys that replace those of the file. */
  keys: JsonObject;
}

/** The options of a server, and where they come from. */
export interface ServerFile {
  options: ServeOptions;
  /** An error of the server's start; one that names an option has its file and line. */
  placed(thrown: unknown): unknown;
}

/**
 * Reads the options of a server from its file and its flags. Paths of the file start from its
 * folder.
 *
 * @throws SluiceError `SERVER_INVALID` with every problem, also if there is nothing to serve;
 *   `USAGE` if two flags name one model; `ENV_MISSING`.
 */
export async function readServerFile(
  file: string | undefined,
  flags: ServeFlags,
  surroundings: {
    environment: Readonly<Record<string, string | undefined>>;
    workingDirectory: string;
  },
): Promise<ServerFile> {
  const { environment, workingDirectory } = surroundings;
  const models = modelsOfFlags(flags.models);
  const read =
    file === undefined
      ? undefined
      : await readJobFile(file, environment, workingDirectory).catch((thrown: unknown) => {
          throw asServerFault(thrown);
        });
  if (read && read.problems.length > 0) throw problemsError(read.problems);
  const given = read?.value ?? {};
  const originOf = (path: readonly string[]): Origin => {
    const [first, name = ""] = path;
    const isFlag = first === "models" && Object.hasOwn(models, name);
    if (isFlag) return { from: "flag", name: `--model ${name}` };
    return read === undefined || isGiven(flags.keys, path) ? { from: "default" } : read.origin;
  };
  const named = isJsonObject(given.models) ? given.models : {};
  const value = { ...mergedKeys(given, flags.keys), models: { ...named, ...models } };
  const parsed = serveSchema.safeParse(value, { jitless: true });
  if (!parsed.success) {
    const problems = schemaProblems(parsed.error.issues, [], { from: "default" }, serveKeysAt);
    const placed = problems.map((problem) => ({ ...problem, origin: originOf(problem.path) }));
    throw asServerFault(problemsError(placed));
  }
  assertServes(parsed.data);
  const folder = file === undefined ? workingDirectory : dirname(resolve(workingDirectory, file));
  const baseOf = (name: string) => (Object.hasOwn(models, name) ? workingDirectory : folder);
  return {
    options: withAbsolutePaths(parsed.data, baseOf, folder),
    placed(thrown) {
      const fault = asServerFault(thrown);
      if (!(fault instanceof SluiceError)) return fault;
      return withLine(fault, (key) => originOf(key.split(".")));
    },
  };
}

/** Whether a value has a key, or is one itself. */
function isGiven(value: Json | undefined, [first, ...rest]: readonly string[]): boolean {
  if (first === undefined || !isJsonObject(value)) return value !== undefined;
  return Object.hasOwn(value, first) && isGiven(value[first], rest);
}

/** Advice for those who write jobs. */
const isForJobs = /\bjobs?\b|--input|input files/;

/** A fault that jobs have too, in the words of a server; any other error stays unchanged. */
function asServerFault(thrown: unknown): unknown {
  if (!(thrown instanceof SluiceError) || thrown.code !== "JOB_INVALID") return thrown;
  const { message, hint, place, cause } = thrown;
  const [ofJob, ofServer] = [errorTable.JOB_INVALID.message, errorTable.SERVER_INVALID.message];
  const own = { ...place, cause, ...(!isForJobs.test(hint) && { hint }) };
  return wordedError("SERVER_INVALID", message.replace(ofJob, ofServer), own);
}

/** The error of a model that cannot be opened, with its key. */
export function ofModel(name: string, thrown: unknown): unknown {
  if (!(thrown instanceof SluiceError)) return thrown;
  const { code, message, hint, place, cause } = thrown;
  const { field: own } = place;
  const isOption = own !== undefined && /^model\b/.test(own);
  const field = isOption ? `models.${name}.${own}` : `models.${name}`;
  const said = isOption ? message.replace(` (field ${own})`, "") : message;
  return wordedError(code, `${said} (field ${field})`, { field, hint, cause });
}

function modelsOfFlags(texts: readonly string[]): Record<string, JsonObject> {
  const models: Record<string, JsonObject> = {};
  for (const [name, model] of texts.map(modelOfFlag)) {
    if (Object.hasOwn(models, name)) {
      const hint = `give each a name: --model ONE=${name} --model OTHER=…`;
      throw new SluiceError("USAGE", `two models have the name ${name}`, { hint });
    }
    models[name] = model;
  }
  return models;
}

/** A server without models waits for archives, if it may take some. */
function assertServes({ models, archives }: ServeOptions): void {
  const { modelStore, urls } = archives;
  if (Object.keys(models).length > 0 || modelStore !== undefined || urls.length > 0) return;
  throw new SluiceError("SERVER_INVALID", "the server has no models", {
    field: "models",
    hint: "give --model, such as --model chat=smollm2-135m-instruct, or a --model-store of archives",
  });
}

/** `NAME=SPEC`; without a name, that of the model: of a path, its last part. */
function modelOfFlag(text: string): [name: string, model: JsonObject] {
  const [, name, spec] = /^([\w][\w./:-]*)=(.+)$/s.exec(text) ?? [];
  if (name !== undefined && spec !== undefined) return [name, modelFromName(spec)];
  const model = modelFromName(text);
  const own = String(model.name ?? model.module ?? model.command ?? text);
  return [own.replace(/^.*\//, "").replace(/\.(gguf|[mc]?[jt]s)$/, ""), model];
}

function withAbsolutePaths(
  options: ServeOptions,
  baseOf: (model: string) => string,
  folder: string,
): ServeOptions {
  const { models, tls, dataDirectory, archives } = options;
  const { modelStore } = archives;
  const placed = Object.entries(models).map(([name, served]) => {
    const { model } = served;
    const absolute = (path: string) =>
      /^[A-Za-z][A-Za-z0-9+.-]+:/.test(path) ? path : resolve(baseOf(name), path);
    return [
      name,
      { ...served, model: describeEngine(model).withAbsolutePaths?.(model, absolute) ?? model },
    ];
  });
  return {
    ...options,
    models: Object.fromEntries(placed),
    dataDirectory: absoluteLocation(folder, dataDirectory),
    archives: {
      ...archives,
      ...(modelStore !== undefined && { modelStore: resolve(folder, modelStore) }),
    },
    ...(tls && {
      tls: { certificate: resolve(folder, tls.certificate), key: resolve(folder, tls.key) },
    }),
  };
}
