import type { GenerationParameters } from "../../foundation/inference.ts";
import type { JsonObject } from "../../foundation/json.ts";

/**
 * Generation parameters as Python's libraries call them: `maxNewTokens` as `max_new_tokens`. The
 * seed is left out: it is the item's own.
 *
 * @example
 * programParameters(parameters).num_beams; // 4
 */
export function programParameters(parameters: GenerationParameters): JsonObject {
  const { seed: _seed, explicit: _explicit, ...shared } = parameters;
  const named = Object.entries(shared).map(([name, value]) => [snakeCase(name), value]);
  return JSON.parse(JSON.stringify(Object.fromEntries(named)));
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
