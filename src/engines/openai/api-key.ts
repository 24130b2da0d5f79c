import { SluiceError } from "../../foundation/errors.ts";
import type { EngineContext } from "../engine.ts";
import { endpointsOf, type OpenaiModelOptions } from "./options.ts";

/** A key, and the variable that holds it. */
export interface ApiKey {
  variable: string;
  value: string;
}

/**
 * The key that a server is to be asked with: from the variable that the model names, else from
 * `OPENAI_API_KEY`; undefined where neither is there.
 *
 * @throws SluiceError `ENV_MISSING` where the named variable is not set, `JOB_INVALID` where the
 *   value cannot be a key.
 */
export function apiKey(
  { apiKeyEnv }: Pick<OpenaiModelOptions, "apiKeyEnv">,
  environment: EngineContext["environment"],
): ApiKey | undefined {
  const variable = apiKeyEnv ?? "OPENAI_API_KEY";
  const value = environment[variable]?.trim();
  if (!value) {
    if (apiKeyEnv === undefined) return undefined;
    throw new SluiceError("ENV_MISSING", apiKeyEnv, {
      field: "model.apiKeyEnv",
      hint: `set ${apiKeyEnv} to the API key, or leave model.apiKeyEnv out`,
    });
  }
  if (/^[\x21-\x7e]+$/.test(value)) return { variable, value };
  throw new SluiceError("JOB_INVALID", `${variable} holds characters that no API key has`);
}

/** Shorter values are none, and would be found in the middle of words. */
const minKeyCharacters = 8;

/**
 * Makes sure that every key is there, and that no option holds one: options are kept in plans.
 *
 * @throws SluiceError as `apiKey`; `JOB_INVALID` that names the variable and not its value.
 */
export function checkKeys(
  options: Pick<OpenaiModelOptions, "baseUrl" | "endpoints" | "apiKeyEnv" | "extraBody">,
  environment: EngineContext["environment"],
): void {
  const endpoints = endpointsOf(options);
  const addresses = endpoints.map(({ baseUrl }) => baseUrl.slice(new URL(baseUrl).origin.length));
  const body = JSON.stringify(options.extraBody ?? {});
  for (const endpoint of endpoints) {
    const key = apiKey(endpoint, environment);
    if (key === undefined || key.value.length < minKeyCharacters) continue;
    refuseKey(key, body, "model.extraBody");
    for (const address of addresses) refuseKey(key, address, "model.baseUrl");
  }
}

function refuseKey({ variable, value }: ApiKey, text: string, field: string): void {
  if (!text.includes(value)) return;
  throw new SluiceError("JOB_INVALID", `it holds the value of ${variable}`, {
    field,
    hint: "leave it out: a job is kept with its run, and the key goes into a header",
  });
}
