import { SluiceError } from "../../foundation/errors.ts";
import type { EngineContext } from "../engine.ts";
import type { EndpointOptions, OpenaiModelOptions } from "./options.ts";

export interface ApiKey {
  variable: string;
  value: string;
}

/** The variable with the key for a model of OpenAI itself, unless it names another. */
export const defaultKeyVariable = "OPENAI_API_KEY";

/** True for servers of OpenAI, which alone get its key unless a job says otherwise. */
export function isOfOpenai(baseUrl: string): boolean {
  const { protocol, hostname } = new URL(baseUrl);
  return protocol === "https:" && /^([a-z0-9-]+\.)?api\.openai\.com$/.test(hostname);
}

/** Names of variables with other secrets: keys of stores, of code and of databases. */
const otherOwners =
  /^(AWS|GH|GITHUB|GITLAB|NPM|NODE|DOCKER|KUBE|VAULT|SSH|GPG|DB|PG|MYSQL|REDIS|MONGO|POSTGRES)_/i;
const otherUses =
  /SECRET_ACCESS|ACCESS_KEY|SESSION|PRIVATE_KEY|PASSWORD|PASSWD|ENCRYPT|SIGN|REFRESH/i;

/**
 * True for a variable that may hold an API key, by its name: GATEWAY_KEY, HF_TOKEN.
 *
 * @example
 * namesApiKey("AWS_SECRET_ACCESS_KEY"); // false
 */
export function namesApiKey(variable: string): boolean {
  if (/^AWS_BEARER_TOKEN/.test(variable)) return true;
  if (otherOwners.test(variable) || otherUses.test(variable)) return false;
  return /(KEY|TOKEN|BEARER)/i.test(variable);
}

/**
 * The key for a server: from the variable that the model names, else, for servers of OpenAI alone,
 * from `OPENAI_API_KEY`; undefined if there is neither.
 *
 * @throws SluiceError `ENV_MISSING` if the named variable is not set, `JOB_INVALID` if its value
 *   cannot be a key.
 */
export function apiKey(
  { apiKeyEnv, baseUrl }: Pick<EndpointOptions, "apiKeyEnv" | "baseUrl">,
  environment: EngineContext["environment"],
): ApiKey | undefined {
  if (apiKeyEnv === undefined && !isOfOpenai(baseUrl)) return undefined;
  const variable = apiKeyEnv ?? defaultKeyVariable;
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

/** Shorter values are not keys, and would be found in the middle of words. */
const minKeyCharacters = 8;

/**
 * Makes sure that every key is set, and that no option contains one: options are stored in plans.
 *
 * @throws SluiceError as `apiKey`; `JOB_INVALID` that names the variable and not its value, also if
 *   a named variable has another purpose, such as a key of AWS.
 */
export function checkKeys(
  options: Pick<OpenaiModelOptions, "baseUrl" | "endpoints" | "apiKeyEnv" | "extraBody">,
  environment: EngineContext["environment"],
): void {
  const endpoints = endpointsOf(options);
  const addresses = endpoints.map(({ baseUrl }) => baseUrl.slice(new URL(baseUrl).origin.length));
  const body = JSON.stringify(options.extraBody ?? {});
  if (!endpoints.every(({ apiKeyEnv }) => apiKeyEnv === undefined || namesApiKey(apiKeyEnv))) {
    const detail = "it names a variable that holds no API key, going by its name";
    throw new SluiceError("JOB_INVALID", detail, {
      field: "model.apiKeyEnv",
      hint: "put the key into a variable of its own, as GATEWAY_API_KEY",
    });
  }
  const usual = {
    variable: defaultKeyVariable,
    value: environment[defaultKeyVariable]?.trim() ?? "",
  };
  for (const key of [usual, ...endpoints.map((endpoint) => apiKey(endpoint, environment))]) {
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

/** The server of a model without an address. */
const defaultBaseUrl = "https://api.openai.com/v1";

/** The servers of a model, each with the variable of its key, if any. */
export function endpointsOf({
  baseUrl = defaultBaseUrl,
  apiKeyEnv,
  endpoints = [{ baseUrl, weight: 1 }],
}: Pick<OpenaiModelOptions, "baseUrl" | "apiKeyEnv" | "endpoints">): EndpointOptions[] {
  return endpoints.map((each) => ({ ...each, apiKeyEnv: each.apiKeyEnv ?? apiKeyEnv }));
}
