import { basicCredentials, decodedPart } from "../../foundation/proxy.ts";
import type { EngineContext } from "../engine.ts";
import { type ApiKey, apiKey, defaultKeyVariable, isOfOpenai } from "./api-key.ts";
import type { EndpointOptions } from "./options.ts";

/** A server of a model: its address, its key, and the paths on it. */
export class ServerAccess {
  readonly url: URL;
  /** For messages: without user, password and query. */
  readonly address: string;
  /** The path up to and including `/v1`. */
  readonly root: string;
  readonly #key: ApiKey | undefined;

  /** @throws SluiceError as `apiKey`. */
  constructor(own: EndpointOptions, environment: EngineContext["environment"]) {
    this.url = new URL(own.baseUrl);
    this.root = this.url.pathname.replace(/\/+$/, "");
    this.address = this.url.origin + this.root;
    this.#key = apiKey(own, environment);
  }

  /** The whole path of a call, such as `/models`. */
  path(call: string): string {
    return `${this.root}${call}${this.url.search}`;
  }

  /** Texts that messages must not contain. */
  get secrets(): string[] {
    const { password } = this.url;
    const basic = password === "" ? "" : (basicCredentials(this.url)?.slice("Basic ".length) ?? "");
    return [this.#key?.value ?? "", password, decodedPart(password), basic];
  }

  /** Headers of each request. */
  get headers(): Record<string, string> {
    const key = this.#key;
    const authorization = key ? `Bearer ${key.value}` : basicCredentials(this.url);
    return {
      "content-type": "application/json",
      accept: "application/json",
      "user-agent": "sluice",
      ...(authorization === undefined ? {} : { authorization }),
    };
  }

  /** The advice after a refused key. */
  get keyHint(): string {
    if (this.#key) return `check the value of ${this.#key.variable}`;
    if (isOfOpenai(this.url.href)) {
      return `set ${defaultKeyVariable}, or name another variable with model.apiKeyEnv`;
    }
    const own = `${defaultKeyVariable} goes to OpenAI alone`;
    return `name the variable of its key with model.apiKeyEnv: ${own}`;
  }
}
