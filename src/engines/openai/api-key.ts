import { SluiceError } from "../../foundation/errors.ts";
import type { EngineContext } from "../engine.ts";
import type { OpenaiModelOptions } from "./options.ts";

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
