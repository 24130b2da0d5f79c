import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import type { Engine, EngineContext } from "../engine.ts";
import { type ApiKey, apiKey } from "./api-key.ts";
import { EndpointBreaker } from "./breaker.ts";
import { type Failure, FailureReader } from "./failures.ts";
import type { OpenaiModelOptions } from "./options.ts";
import { leastTokens } from "./prompt-size.ts";
import { readReply } from "./reply.ts";
import { RequestWriter } from "./request-body.ts";
import { type StructuredOutput, withStructureHint } from "./structured-output.ts";
import { basicCredentials, type HttpReply, Transport, TransportError } from "./transport.ts";
import { isOpenaiItself } from "./unsupported.ts";

/**
 * Opens an engine that asks an OpenAI-compatible server. Nothing is sent before the first `infer`.
 *
 * @throws SluiceError `ENV_MISSING` when `apiKeyEnv` names a variable that is not set,
 *   `JOB_INVALID` when `baseUrl` is not http or https, or the key could be in no header.
 * @example
 * const options = modelOptions.parse({ engine: "openai", name: "qwen", baseUrl });
 * const engine = openOpenai(options, context);
 * await engine.infer(request, signal);
 */
export function openOpenai(options: OpenaiModelOptions, context: EngineContext): Engine {
  return new OpenaiEngine(options, context);
}

class OpenaiEngine implements Engine {
  readonly name = "openai";
  readonly capacity: number;
  readonly #context: EngineContext;
  readonly #contextTokens: number | undefined;
  readonly #keyHint: string;
  readonly #paths: { chat: string; completion: string };
  readonly #writer: RequestWriter;
  readonly #structuredOutput: StructuredOutput;
  readonly #transport: Transport;
  readonly #breaker: EndpointBreaker;
  readonly #failures: FailureReader;
  readonly #redact = (text: string) => this.#failures.redact(text);
  #closedBy: SluiceError | undefined;

  constructor(options: OpenaiModelOptions, context: EngineContext) {
    const address = addressOf(options.baseUrl);
    const key = apiKey(options, context.environment);
    const root = address.pathname.replace(/\/+$/, "");
    this.capacity = options.maxInFlight;
    this.#context = context;
    this.#contextTokens = options.contextTokens;
    this.#keyHint = keyHint(key);
    this.#paths = {
      chat: `${root}/chat/completions${address.search}`,
      completion: `${root}/completions${address.search}`,
    };
    this.#writer = new RequestWriter(
      options.name,
      isOpenaiItself(options.baseUrl),
      options.structuredOutput,
    );
    this.#structuredOutput = options.structuredOutput;
    this.#failures = new FailureReader([key?.value ?? "", address.password], context.clock.now);
    this.#breaker = new EndpointBreaker({
      ...context,
      endpoint: address.origin + root,
      maxEndpointDownMs: options.maxEndpointDownMs,
    });
    this.#transport = new Transport({
      ...context,
      address,
      headers: headersFor(key?.value, address),
      maxConnections: options.maxInFlight,
      timeoutMs: options.timeoutMs,
      maxResponseBytes: limits.maxResponseBytes,
    });
  }

  async infer(request: InferenceRequest, signal: AbortSignal): Promise<InferenceResponse> {
    this.#checkWords(request);
    const body = this.#writer.write(request);
    const form = request.messages === undefined ? "completion" : "chat";
    const askedMs = this.#context.clock.monotonic();
    for (;;) {
      if (signal.aborted) throw signal.reason;
      if (this.#closedBy) throw this.#closedBy;
      const isProbe = this.#breaker.isPaused && (await this.#breaker.pass(signal));
      const reply = await this.#ask(this.#paths[form], body, signal, isProbe, request);
      if (reply === undefined) continue;
      const { answers, usage } = readReply(reply, form, request.parameters, this.#redact);
      this.#checkContext(usage.promptTokens);
      const seconds = (this.#context.clock.monotonic() - askedMs) / 1000;
      return { answers, usage, seconds };
    }
  }

  async close(): Promise<void> {
    if (this.#closedBy) return;
    this.#closedBy = new SluiceError("ENGINE_DIED", "it was closed");
    this.#breaker.close(this.#closedBy);
    await this.#transport.close(this.#closedBy);
  }

  /** One try. Undefined when the endpoint failed and is to be asked again. */
  async #ask(
    path: string,
    body: string,
    signal: AbortSignal,
    isProbe: boolean,
    request: InferenceRequest,
  ): Promise<HttpReply | undefined> {
    let failure: Failure;
    try {
      const reply = await this.#transport.post(path, body, signal);
      if (reply.status >= 200 && reply.status < 300) {
        this.#breaker.succeed(isProbe);
        return reply;
      }
      failure = this.#failures.ofStatus(reply);
    } catch (error) {
      if (!(error instanceof TransportError)) {
        if (isProbe) this.#breaker.abandon();
        throw error;
      }
      failure = this.#failures.ofTransport(error);
    }
    if (failure.of === "request") {
      this.#breaker.succeed(isProbe);
      throw withStructureHint(this.#withKeyHint(failure.error), request, this.#structuredOutput);
    }
    const down = this.#breaker.fail(failure.failure, isProbe);
    if (down) throw down;
    return undefined;
  }

  #withKeyHint(error: SluiceError): SluiceError {
    if (error.code !== "AUTHENTICATION_FAILED") return error;
    return Object.assign(error, { hint: this.#keyHint });
  }

  /** A prompt that cannot fit is not paid for. */
  #checkWords(request: InferenceRequest): void {
    if (this.#contextTokens === undefined) return;
    const words = leastTokens(request, this.#contextTokens + 1);
    if (words <= this.#contextTokens) return;
    const detail = `more than ${this.#contextTokens} words, contextTokens is ${this.#contextTokens}`;
    throw new SluiceError("PROMPT_TOO_LONG", detail, { hint: "shorten the prompt" });
  }

  /** For servers that cut a prompt silently, where the job says what the context is. */
  #checkContext(promptTokens: number): void {
    if (this.#contextTokens === undefined || promptTokens <= this.#contextTokens) return;
    const detail = `${promptTokens} tokens, contextTokens is ${this.#contextTokens}`;
    throw new SluiceError("PROMPT_TOO_LONG", detail, { hint: "shorten the prompt" });
  }
}

function keyHint(key: ApiKey | undefined): string {
  return key
    ? `check the value of ${key.variable}`
    : "set OPENAI_API_KEY, or name another variable with model.apiKeyEnv";
}

function addressOf(baseUrl: string): URL {
  const address = new URL(baseUrl);
  if (address.protocol === "http:" || address.protocol === "https:") return address;
  throw new SluiceError("JOB_INVALID", `${address.protocol} is not http: or https:`, {
    field: "model.baseUrl",
  });
}

function headersFor(key: string | undefined, address: URL): Record<string, string> {
  const authorization = key === undefined ? basicCredentials(address) : `Bearer ${key}`;
  return {
    "content-type": "application/json",
    accept: "application/json",
    "user-agent": "sluice",
    ...(authorization === undefined ? {} : { authorization }),
  };
}
