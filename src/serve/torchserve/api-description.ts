import type { JsonObject } from "../../foundation/json.ts";
import type { Registration } from "./registry.ts";

const error: JsonObject = {
  description: "An error",
  content: {
    "application/json": {
      schema: {
        type: "object",
        required: ["code", "type", "message"],
        properties: {
          code: { type: "integer" },
          type: { type: "string" },
          message: { type: "string" },
        },
      },
    },
  },
};

const body: JsonObject = { content: { "*/*": { schema: {} } } };

/** A call with its parameters; those in the path are in braces there. */
function call(operationId: string, path: string, query: readonly string[] = []): JsonObject {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => parameter(name!, "path"));
  return {
    operationId,
    parameters: [...inPath, ...query.map((name) => parameter(name, "query"))],
    responses: { 200: { description: "Done" }, default: error },
  };
}

const parameter = (name: string, place: "path" | "query"): JsonObject => ({
  name,
  in: place,
  required: place === "path",
  schema: { type: "string" },
});

function document(title: string, paths: JsonObject): JsonObject {
  return { openapi: "3.0.1", info: { title, version: "1" }, paths };
}

const prediction = "/predictions/{model_name}";
const version = "/{model_version}";
const model = "/models/{model_name}";

const workerKeys = ["min_worker", "max_worker", "synchronous"];

const registerKeys = [
  ...["url", "model_name", "batch_size", "max_batch_delay", "initial_workers"],
  ...["synchronous", "response_timeout", "startup_timeout"],
];

/** What may be called at an address, in the form of OpenAPI 3.0.1. */
export function addressDescription(isManagement: boolean): JsonObject {
  if (!isManagement) {
    return document("Inference", {
      "/ping": { get: call("ping", "") },
      "/api-description": { get: call("apiDescription", "") },
      [prediction]: { post: { ...call("predict", prediction), requestBody: body } },
      [prediction + version]: {
        post: { ...call("predictByVersion", prediction + version), requestBody: body },
      },
    });
  }
  return document("Management", {
    "/api-description": { get: call("apiDescription", "") },
    "/models": {
      get: call("listModels", "", ["limit", "next_page_token"]),
      post: call("registerModel", "", registerKeys),
    },
    [model]: {
      get: call("describeModel", model, ["customized"]),
      put: call("scaleModel", model, workerKeys),
      delete: call("unregisterModel", model),
    },
    [model + version]: {
      get: call("describeVersion", model + version, ["customized"]),
      put: call("scaleVersion", model + version, workerKeys),
      delete: call("unregisterVersion", model + version),
    },
    [`${model}${version}/set-default`]: {
      put: call("setDefault", model + version),
    },
  });
}

/** What may be sent to one model. */
export function modelDescription({ name, version: own }: Registration): JsonObject {
  const path = `/predictions/${name}`;
  return document(`${name} ${own}`, {
    [path]: { post: { ...call("predict", path), requestBody: body } },
  });
}
