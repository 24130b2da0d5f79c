import type { FastifyInstance, FastifyReply } from "fastify";
import { SluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import type { Batches, NewBatch } from "../batches/batches.ts";
import { batchEndpoints } from "../batches/check-input.ts";
import { wrong } from "./failure.ts";
import { lifeSeconds, type PageQuery, pageOf } from "./page.ts";

const pageLimits = { usual: 20, most: 100 };

const maxMetadataPairs = 16;
const maxMetadataKeyCharacters = 64;
const maxMetadataValueCharacters = 512;

type ById = { Params: { id: string } };

/** OpenAI's API of batches, and `GET /v1/batches/{id}/manifest`. */
export function batchRoutes(server: FastifyInstance, batches: Batches): void {
  server.post("/v1/batches", async ({ body, trace }) =>
    batches.create({ ...newBatchOf(body as Json), trace }),
  );
  server.get<{ Querystring: PageQuery }>("/v1/batches", async ({ query }) => {
    const { limit, after } = query;
    return pageOf(await batches.all(), { limit, after }, pageLimits);
  });
  server.get<ById>("/v1/batches/:id", ({ params }) => batches.get(params.id));
  server.post<ById>("/v1/batches/:id/cancel", ({ params }) => batches.cancel(params.id));
  server.get<ById>("/v1/batches/:id/manifest", async ({ params }, reply: FastifyReply) =>
    reply.type("application/json").send(await batches.manifest(params.id)),
  );
}

function newBatchOf(body: Json | undefined): NewBatch {
  if (!isJsonObject(body)) {
    throw new SluiceError("REQUEST_INVALID", "the body must be a JSON object");
  }
  const { input_file_id: file, endpoint, completion_window: window } = body;
  for (const field of ["input_file_id", "endpoint", "completion_window"]) {
    if (body[field] === undefined || body[field] === null) {
      throw new SluiceError("PARAMETER_MISSING", "", { field });
    }
  }
  if (typeof file !== "string") throw wrong("input_file_id", "a text");
  if (typeof endpoint !== "string" || !Object.hasOwn(batchEndpoints, endpoint)) {
    throw wrong("endpoint", `one of ${Object.keys(batchEndpoints).join(", ")}`);
  }
  if (window !== "24h") throw wrong("completion_window", "24h");
  return {
    ...{ endpoint, input_file_id: file, metadata: metadataOf(body.metadata) },
    outputLifeSeconds: lifeSeconds("output_expires_after", body.output_expires_after),
  };
}

function metadataOf(given: JsonObject[string] | undefined): Record<string, string> | null {
  if (given === undefined || given === null) return null;
  if (!isJsonObject(given)) throw wrong("metadata", "an object of texts");
  const pairs = Object.entries(given);
  if (pairs.length > maxMetadataPairs) {
    throw wrong("metadata", `an object of ${maxMetadataPairs} members at most`);
  }
  for (const [key, value] of pairs) {
    if (key.length > maxMetadataKeyCharacters) {
      throw wrong("metadata", `an object whose keys have ${maxMetadataKeyCharacters} characters`);
    }
    if (typeof value !== "string" || value.length > maxMetadataValueCharacters) {
      const field = `metadata.${key}`;
      throw wrong(field, `a text of ${maxMetadataValueCharacters} characters at most`);
    }
  }
  return given as Record<string, string>;
}
