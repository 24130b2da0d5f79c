import { dirname, resolve } from "node:path";
import { absoluteLocation } from "../data/storage/open.ts";
import { describeEngine } from "../engines/registry.ts";
import { SluiceError } from "../foundation/errors.ts";
import { isJsonObject, type JsonObject } from "../foundation/json.ts";
import { readJobFile } from "../run/job/job-file.ts";
import { type Origin, problemsError, schemaProblems } from "../run/job/problem.ts";
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

/**
 * The options of a server, from its file and its flags. Paths of the file start from its folder.
 *
 * @throws SluiceError `JOB_INVALID` with every problem, also if there is nothing to serve; `USAGE`
 *   if two flags name one model; `ENV_MISSING`.
 */
export async function readServerFile(
  file: string | undefined,
  flags: ServeFlags,
  surroundings: {
    environment: Readonly<Record<string, string | undefined>>;
    workingDirectory: string;
  },
): Promise<ServeOptions> {
  const { environment, workingDirectory } = surroundings;
  const read =
    file === undefined ? undefined : await readJobFile(file, environment, workingDirectory);
  const origin: Origin = read?.origin ?? { from: "default" };
  if (read && read.problems.length > 0) throw problemsError(read.problems);
  const given = read?.value ?? {};
  const models = modelsOfFlags(flags.models);
  const named = isJsonObject(given.models) ? given.models : {};
  const value = { ...mergedKeys(given, flags.keys), models: { ...named, ...models } };
  const parsed = serveSchema.safeParse(value, { jitless: true });
  if (!parsed.success) {
    const problems = schemaProblems(parsed.error.issues, [], origin, serveKeysAt);
    throw problemsError(problems.map((problem) => ({ ...problem, hint: "see docs/serve.md" })));
  }
  assertServes(parsed.data);
  const folder = file === undefined ? workingDirectory : dirname(resolve(workingDirectory, file));
  return withAbsolutePaths(
    parsed.data,
    (name) => (name in models ? workingDirectory : folder),
    folder,
  );
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
  throw new SluiceError("JOB_INVALID", "the server has no models", {
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
