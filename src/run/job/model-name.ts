import type { JsonObject } from "../../foundation/json.ts";

/**
 * The model that a name stands for: `fake`, `openai:NAME`, or the catalog name or path of a model
 * of engine `llama`.
 */
export function modelFromName(text: string): JsonObject {
  const [, engine, name] = /^(openai|llama|fake):(.+)$/s.exec(text) ?? [];
  if (engine !== undefined && name !== undefined) return { engine, name };
  return text === "fake" ? { engine: "fake" } : { engine: "llama", name: text };
}
