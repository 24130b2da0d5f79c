import type { SamplingParameters } from "../../foundation/inference.ts";
import type { JsonObject } from "../../foundation/json.ts";

/**
 * Generation parameters by the names of Python's libraries: `maxNewTokens` as `max_new_tokens`. The
 * seed is left out: each item has its own.
 *
 * @example
 * programParameters(parameters).num_beams; // 4
 */
export function programParameters(parameters: SamplingParameters): JsonObject {
  const { seed: _seed, explicit: _explicit, ...shared } = parameters;
  const named = Object.entries(shared).map(([name, value]) => [snakeCase(name), value]);
  return JSON.parse(JSON.stringify(Object.fromEntries(named)));
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
