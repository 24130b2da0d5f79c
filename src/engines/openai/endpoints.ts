import type { EndpointOptions, OpenaiModelOptions } from "./options.ts";

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
