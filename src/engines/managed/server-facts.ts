import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import type { ServerClient } from "./server-client.ts";
import type { ServerFacts } from "./server-launch.ts";

/**
 * The facts of a llama-server, from `/v1/models` and `/props`. They need the key, so that a server
 * of another process on the same port is not mistaken for ours.
 */
export async function llamaServerFacts(client: ServerClient): Promise<ServerFacts | undefined> {
  const model = await firstModel(client);
  const props = await client.json("/props");
  if (model === undefined || !isJsonObject(props)) return undefined;
  const settings = props.default_generation_settings;
  return {
    modelName: model.id,
    version: typeof props.build_info === "string" ? props.build_info : null,
    slots: positive(props.total_slots),
    contextTokens: positive(isJsonObject(settings) ? settings.n_ctx : undefined),
  };
}

/** The same for vLLM: `/v1/models`, which needs the key, and `/version`. */
export async function vllmFacts(
  client: ServerClient,
  sequences: number | undefined,
): Promise<ServerFacts | undefined> {
  const model = await firstModel(client);
  if (model === undefined) return undefined;
  const about = await client.json("/version");
  return {
    modelName: model.id,
    version: isJsonObject(about) && typeof about.version === "string" ? about.version : null,
    slots: sequences,
    contextTokens: positive(model.max_model_len),
  };
}

async function firstModel(
  client: ServerClient,
): Promise<(JsonObject & { id: string }) | undefined> {
  const reply = await client.json("/v1/models");
  const [first] = isJsonObject(reply) && Array.isArray(reply.data) ? reply.data : [];
  if (!isJsonObject(first) || typeof first.id !== "string") return undefined;
  return { ...first, id: first.id };
}

function positive(value: Json | undefined): number | undefined {
  return typeof value === "number" && value > 0 ? value : undefined;
}
