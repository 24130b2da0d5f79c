import type { EndpointOptions, OpenaiModelOptions } from "./options.ts";

/** Where a server is asked that no address was given of. */
const defaultBaseUrl = "https://api.openai.com/v1";

/** The servers that a model names, each with the variable that holds its key, if any. */
export function endpointsOf({
  baseUrl = defaultBaseUrl,
  apiKeyEnv,
  endpoints = [{ baseUrl, weight: 1 }],
}: Pick<OpenaiModelOptions, "baseUrl" | "apiKeyEnv" | "endpoints">): EndpointOptions[] {
  return endpoints.map((each) => ({ ...each, apiKeyEnv: each.apiKeyEnv ?? apiKeyEnv }));
}
