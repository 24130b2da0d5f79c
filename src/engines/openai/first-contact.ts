import { sleep } from "../../foundation/clock.ts";
import type { ErrorCode } from "../../foundation/error-table.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { isJsonObject, jsonObjectIn } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { nearest } from "../../foundation/suggest.ts";
import type { ModelContext } from "../models/model-context.ts";
import { endpointsOf } from "./api-key.ts";
import { trustOf } from "./certificates.ts";
import { FailureReader } from "./failures.ts";
import type { OpenaiModelOptions } from "./options.ts";
import { ServerAccess } from "./server-access.ts";
import { type HttpReply, Transport, TransportError } from "./transport.ts";
import { isOpenaiItself } from "./unsupported.ts";

/** Time between two checks of an endpoint that has not answered yet. */
const firstContactIntervalMs = 500;

/** Most names in the hint of an unknown model. */
const maxShownNames = 5;

/** Errors that later requests would also get. */
const lasting: ReadonlySet<ErrorCode> = new Set([
  "AUTHENTICATION_FAILED",
  "ENDPOINT_UNUSABLE",
  "MODEL_UNKNOWN",
]);

/**
 * Checks, before the first row is sent, whether the endpoints of a model answer, know its name, and
 * accept the key: each is asked for `/models`. An endpoint without that page passes. If the page
 * lacks the name or refuses the key, one short chat decides, since servers may know more names than
 * they list. A refused connection is tried again for `firstAnswerMs`. A request that was sent has
 * at least `limits.firstAnswerMs` for its reply, since the server may be busy.
 *
 * @throws SluiceError if no endpoint is left: `ENDPOINT_DOWN` for one that does not answer,
 *   `ENDPOINT_UNUSABLE` for a wrong host name, certificate or proxy, `AUTHENTICATION_FAILED`,
 *   `MODEL_UNKNOWN`. Some of several endpoints may fail with a warning.
 */
export async function contactEndpoints(
  options: OpenaiModelOptions,
  context: ModelContext,
): Promise<void> {
  if (options.firstAnswerMs === 0) return;
  const endpoints = endpointsOf(options);
  const servers = endpoints.map((each) => new ServerAccess(each, context.environment));
  const secrets = servers.flatMap((server) => server.secrets);
  const found = await Promise.all(
    servers.map(async (server) => {
      const error = await new FirstContact(server, options, context, secrets).problem();
      return { address: server.address, error };
    }),
  );
  const failed = found.filter(({ error }) => error !== undefined);
  if (failed.length === endpoints.length) throw failed[0]!.error!;
  for (const { address, error } of failed) {
    context.logger.log("warn", "an endpoint cannot be used yet, the run starts without it", {
      endpoint: address,
      reason: error!.message,
    });
  }
}

/** One endpoint to check. */
class FirstContact {
  readonly #server: ServerAccess;
  readonly #options: OpenaiModelOptions;
  readonly #context: ModelContext;
  readonly #failures: FailureReader;
  readonly #transport: Transport;
  readonly #signal: AbortSignal;

  constructor(
    server: ServerAccess,
    options: OpenaiModelOptions,
    context: ModelContext,
    secrets: readonly string[],
  ) {
    const { clock, environment } = context;
    this.#server = server;
    this.#options = options;
    this.#context = context;
    this.#signal = context.signal ?? new AbortController().signal;
    this.#failures = new FailureReader(secrets, clock.now);
    this.#transport = new Transport({
      ...{ clock, environment, address: server.url, secureContext: trustOf(environment) },
      headers: server.headers,
      maxConnections: 1,
      timeoutMs: Math.max(options.firstAnswerMs, limits.firstAnswerMs),
      maxResponseBytes: limits.maxResponseBytes,
    });
  }

  /**
   * Why it cannot be used; undefined if it can.
   *
   * @throws the signal's reason.
   */
  async problem(): Promise<SluiceError | undefined> {
    try {
      const models = await this.#models();
      if (!this.#isDoubtful(models)) return undefined;
      return await this.#refusal(namesIn(models.text));
    } catch (error) {
      if (error instanceof SluiceError && !this.#signal.aborted) return error;
      throw error;
    } finally {
      await this.#transport.close(new Error("the endpoint was looked at"));
    }
  }

  /** Its page of models, once it answers at all. */
  async #models(): Promise<HttpReply> {
    const { clock, logger } = this.#context;
    const { firstAnswerMs } = this.#options;
    const endpoint = this.#server.address;
    const startMs = clock.monotonic();
    for (let tries = 0; ; tries++) {
      try {
        const reply = await this.#transport.get(this.#server.path("/models"), this.#signal);
        if (tries > 0) logger.log("info", "the endpoint answers", { endpoint });
        return reply;
      } catch (error) {
        if (!(error instanceof TransportError)) throw error;
        const reason = this.#reasonToWait(error);
        const triedMs = clock.monotonic() - startMs;
        const leftMs = firstAnswerMs - triedMs;
        if (leftMs <= 0) throw this.#noAnswer(reason, triedMs);
        if (tries === 0) {
          const detail = `no answer yet, trying for ${firstAnswerMs / 1000} s`;
          logger.log("warn", detail, { endpoint, reason });
        }
        await sleep(clock, Math.min(firstContactIntervalMs, leftMs), this.#signal);
      }
    }
  }

  /** @throws SluiceError for faults that waiting does not fix. */
  #reasonToWait(error: TransportError): string {
    if (error.code === "ENOTFOUND") {
      const { hostname } = this.#server.url;
      throw new SluiceError("ENDPOINT_UNUSABLE", `the host name ${hostname} is not known`, {
        hint: "check the address in model.baseUrl",
      });
    }
    const failure = this.#failures.ofTransport(error);
    if (failure.of === "endpoint") return failure.failure.message;
    if (lasting.has(failure.error.code)) throw failure.error;
    return this.#failures.redact(error.message);
  }

  #noAnswer(reason: string, triedMs: number): SluiceError {
    const seconds = (triedMs / 1000).toFixed(1);
    const detail = `${this.#server.address}, ${seconds} s; last: ${reason}`;
    return new SluiceError("ENDPOINT_DOWN", detail, {
      hint: "start the server, or check model.baseUrl; model.firstAnswerMs says how long to wait",
    });
  }

  #isDoubtful({ status, text }: HttpReply): boolean {
    if (status === 401 || status === 403 || status === 407) return true;
    if (status !== 200) return false;
    const names = namesIn(text);
    const { name } = this.#options;
    return names.length > 0 && !names.includes(name) && !names.includes(`${name}:latest`);
  }

  /** The error of one short chat about key or name, if any. */
  async #refusal(names: readonly string[]): Promise<SluiceError | undefined> {
    const { name } = this.#options;
    const most = isOpenaiItself(this.#server.url.href) ? "max_completion_tokens" : "max_tokens";
    const messages = [{ role: "user", content: "Hi" }];
    const body = JSON.stringify({ model: name, messages, [most]: 1 });
    const path = this.#server.path("/chat/completions");
    let reply: HttpReply;
    try {
      reply = await this.#transport.post(path, body, this.#signal);
    } catch (error) {
      // It answers; rows will show how it handles chats.
      if (error instanceof TransportError) return undefined;
      throw error;
    }
    if (reply.status < 400) return undefined;
    const failure = this.#failures.ofStatus(reply);
    if (failure.of !== "request" || !lasting.has(failure.error.code)) return undefined;
    const { code } = failure.error;
    if (code === "AUTHENTICATION_FAILED") {
      return Object.assign(failure.error, { hint: this.#server.keyHint });
    }
    if (code !== "MODEL_UNKNOWN" || names.length === 0) return failure.error;
    const likely = nearest(name, names);
    const hint = likely ? `did you mean ${likely}?` : `it has ${shownNames(names)}`;
    return Object.assign(failure.error, { hint });
  }
}

function shownNames(names: readonly string[]): string {
  const more = names.length - maxShownNames;
  return names.slice(0, maxShownNames).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** Names of models in the page that lists them; none for another page. */
function namesIn(text: string): string[] {
  const { data } = jsonObjectIn(text) ?? {};
  if (!Array.isArray(data)) return [];
  return data.flatMap((each) =>
    isJsonObject(each) && typeof each.id === "string" ? [each.id] : [],
  );
}
