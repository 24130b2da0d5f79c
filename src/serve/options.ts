import { z } from "zod";
import { modelOptions } from "../engines/model-options.ts";
import { atLeastOne, oneLine } from "../foundation/setting.ts";
import { backendProblems } from "../run/job/backend-problems.ts";
import { rayOptions, workersOptions } from "../run/job/backend-schemas.ts";
import { generationOptions } from "../run/job/generation-schema.ts";
import { modelFromName } from "../run/job/value-text.ts";
import { mostWorkers, workerOptions } from "./torchserve/archive-options.ts";

const milliseconds = z.int().min(0).max(86_400_000);
const megabyte = 1024 * 1024;

const address = z
  .string()
  .regex(
    /^(\[[0-9a-f:.]+\]|[^\s:/[\]]+):\d{1,5}$/i,
    "must be an address and a port, as 127.0.0.1:8080",
  );

const modelName = z
  .string()
  .regex(/^[\w][\w./:-]{0,127}$/, "must be letters, digits and ._-/:, 128 at most");

const model = z
  .union([z.string().min(1), z.record(z.string(), z.json())])
  .transform((given) => (typeof given === "string" ? modelFromName(given) : given))
  .pipe(modelOptions);

const servedModel = z.strictObject({
  model,
  /** How answers are sampled where a request does not say. */
  generation: generationOptions.prefault({}),
  /**
   * Copies of the model. Each has a share of the cores, and GPUs of its own. Default: one copy,
   * which has all of them.
   */
  workers: atLeastOne.max(mostWorkers).optional(),
  maxQueueSize: atLeastOne.optional(),
  maxQueueWaitMs: milliseconds.optional(),
  /** Further names of the model; each adds its fields to the rows that come under it. */
  variants: z.record(modelName, z.record(z.string(), z.json())).default({}),
});

const isServed = (given: unknown) =>
  typeof given === "object" && given !== null && "model" in given && !("engine" in given);

/** What a token may be used for. */
export const scopes = ["infer", "manage", "metrics"] as const;
export type Scope = (typeof scopes)[number];

const token = z.strictObject({
  name: oneLine,
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/i, "must be the SHA-256 of the token, in 64 hexadecimal digits")
    .transform((digest) => digest.toLowerCase()),
  scopes: z.array(z.enum(scopes)).min(1).default(["infer"]),
  /** Share of the models, relative to the other callers. */
  weight: z.number().positive().default(1),
});

/** The bounds of a server that its users may meet. */
const serveLimits = z.strictObject({
  maxBodyBytes: atLeastOne.default(64 * megabyte),
  /** Largest uploaded file. */
  maxFileBytes: atLeastOne.default(512 * megabyte),
  maxHeaderBytes: atLeastOne.default(16 * 1024),
  /** Time for the headers and the body of a request to arrive. */
  requestArrivalTimeoutMs: milliseconds.default(60_000),
  idleConnectionTimeoutMs: milliseconds.default(75_000),
  maxConnections: atLeastOne.default(10_000),
  /** Waiting online requests of each model; rows of batches do not count. */
  maxQueueSize: atLeastOne.default(10_000),
  /** Longest wait of a request for its model; with a longer one ahead it is refused at once. */
  maxQueueWaitMs: milliseconds.default(60_000),
  /** Longest time from the arrival of a request to its answer. */
  requestTimeoutMs: milliseconds.default(600_000),
  /** Tries of a request whose model died or failed, or whose answer has the wrong form. */
  maxTries: atLeastOne.default(2),
  /** Requests of one batch. */
  maxBatchRequests: atLeastOne.default(50_000),
  /** Batches that are carried out at once; others wait. */
  maxBatchesInProgress: atLeastOne.default(2),
  /** Time from the creation of a batch to its end, whatever is left of it. */
  batchWindowMs: milliseconds.default(86_400_000),
  /** Time for requests in work to end when the server is stopped. */
  drainTimeoutMs: milliseconds.default(30_000),
  /** The same for rows of batches, which the next server continues; at most `drainTimeoutMs`. */
  batchDrainTimeoutMs: milliseconds.default(10_000),
});

/** Where the rows of batches are answered. */
const batches = z
  .strictObject({
    /** `local`: by the models of this server; `ray`: by workers with copies of them. */
    backend: z.enum(["local", "ray"]).default("local"),
    /** As in a job, as is `workers`. */
    ray: rayOptions.optional(),
    workers: workersOptions.optional(),
  })
  .superRefine(({ backend, ray, workers = {} }, context) => {
    const problems = backendProblems({ backend, ray, workers, env: {} });
    if (backend === "local" && Object.keys(workers).length > 0) {
      problems.push(["workers", "it goes with backend: ray, and this is backend: local"]);
    }
    for (const [key, message] of problems) {
      context.addIssue({ code: "custom", path: key.split("."), message });
    }
  });

const seconds = z.int().min(1).max(86_400);

/** Archives, and what TorchServe's wire needs beside the models. */
const archiveWorkers = z.strictObject(workerOptions.shape);
const loadedArchive = z.strictObject({
  /** Default: that of the archive's manifest. */
  name: modelName.optional(),
  file: z.string().min(1),
});
const archives = z.strictObject({
  /** Folder of archives that may be registered. */
  modelStore: z.string().min(1).optional(),
  /** Archives at or below these addresses may be registered too; a `*` at the end is any text. */
  urls: z.array(z.url({ protocol: /^https?$/ })).default([]),
  /** Those that are loaded at the start: by name of the model, or as `NAME=FILE` and `FILE`. */
  load: z
    .union([z.record(z.string(), z.string()), z.array(z.string())])
    .default([])
    .transform((given) =>
      Array.isArray(given)
        ? [...new Set(given)].map(archiveOfEntry)
        : Object.entries(given).map(([name, file]) => ({ name, file })),
    )
    .pipe(z.array(loadedArchive)),
  /** Loads all archives of the model store at the start. */
  loadAll: z.boolean().default(false),
  /** Program that runs handlers in Python. */
  python: z.string().min(1).default("python3"),
  workers: z.int().min(0).max(mostWorkers).default(1),
  responseTimeoutSeconds: seconds.default(120),
  startupTimeoutSeconds: seconds.default(120),
  /** Most GPUs that workers get in turn. Default: all that the machine shows. */
  gpus: z.int().min(0).optional(),
  /** How models are served, by name of model or archive. */
  models: z.record(z.string(), archiveWorkers).default({}),
});

function archiveOfEntry(entry: string) {
  const [, name, file = entry] = /^([^=/]+)=(.+)$/s.exec(entry) ?? [];
  return { file, ...(name !== undefined && { name }) };
}

/** A path whose bodies name the model that answers them. */
const bodyRoute = z.strictObject({
  path: z.string().regex(/^\/[\w./-]*$/, "must be a path, such as / or /translate"),
  /** Its parts in braces are fields of the body. */
  model: z.string().min(1),
});

/** A server, as `serve.yaml` describes it. */
export const serveSchema = z.strictObject({
  models: z.record(
    modelName,
    z
      .unknown()
      .transform((given) => (isServed(given) ? given : { model: given }))
      .pipe(servedModel),
  ),
  listen: z
    .strictObject({
      inference: address.default("127.0.0.1:8080"),
      management: address.default("127.0.0.1:8081"),
      metrics: address.default("127.0.0.1:8082"),
    })
    .prefault({}),
  archives: archives.prefault({}),
  routes: z.array(bodyRoute).default([]),
  tokens: z.array(token).default([]),
  /** Serves other machines without tokens. */
  insecure: z.boolean().default(false),
  tls: z.strictObject({ certificate: z.string().min(1), key: z.string().min(1) }).optional(),
  /** Folder of uploaded files and batches. */
  dataDirectory: z.string().min(1).default("sluice-data"),
  batches: batches.prefault({}),
  /** A line for each request: method, path, status, caller, duration. */
  accessLog: z.boolean().default(true),
  limits: serveLimits.prefault({}),
});

/** The keys of a server's file at a path, for suggestions. */
export function serveKeysAt(path: readonly string[]): readonly string[] {
  // Names of models, and numbers in lists, are not keys.
  const above = path.slice(0, -1).join(".");
  const isListed = ["routes", "tokens", "models", "archives.models"].includes(above);
  const at = isListed ? above : path.join(".");
  return Object.keys(shapes[at]?.shape ?? {});
}

const shapes: Readonly<Record<string, { shape: object }>> = {
  ...{ "": serveSchema, limits: serveLimits, archives, batches },
  ...{ "batches.ray": rayOptions, "batches.workers": workersOptions },
  ...{ routes: bodyRoute, tokens: token, models: servedModel },
  "archives.models": archiveWorkers,
};

export type ServeInput = z.input<typeof serveSchema>;
export type ServeOptions = z.output<typeof serveSchema>;
export type ServeLimits = ServeOptions["limits"];
export type ServedModelOptions = z.output<typeof servedModel>;
export type BatchOptions = ServeOptions["batches"];
