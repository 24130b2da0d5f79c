import { SluiceError } from "../../foundation/errors.ts";
import type { Usage } from "../../foundation/inference.ts";
import type { Call } from "./call.ts";
import type { Endpoint } from "./endpoint.ts";
import type { EndpointPool, Wish } from "./endpoint-pool.ts";

/**
 * Sends a request to one endpoint after the other until there is an answer, or a failure of the
 * request itself.
 */
export class RequestSender {
  readonly #pool: EndpointPool;
  /** The endpoints on which repeatable requests failed, by their subject. */
  readonly #failedAt = new WeakMap<object, Set<Endpoint>>();
  #closedBy: SluiceError | undefined;

  constructor(pool: EndpointPool) {
    this.#pool = pool;
  }

  /**
   * The answer to one request.
   *
   * @param subject the same object for each try of a request: the next try goes to an endpoint on
   *   which it did not fail, if there is one.
   * @throws SluiceError of the request, or one that ends the run; the signal's reason.
   */
  async send<T extends { usage: Usage }>(
    call: Call<T>,
    subject: object,
    signal: AbortSignal,
  ): Promise<T> {
    const { key, tokens } = call;
    const { hasSeveral } = this.#pool;
    const avoided = hasSeveral ? this.#failedAt.get(subject) : undefined;
    const wish: Wish = { key, tokens, avoided };
    let lostAt: Set<Endpoint> | undefined;
    for (;;) {
      if (signal.aborted) throw signal.reason;
      if (this.#closedBy) throw this.#closedBy;
      // After part of one answer was reported, another one cannot follow.
      if (call.hasTold) throw new SluiceError("CONNECTION_LOST", "in the middle of an answer");
      const permit = this.#pool.tryTake(wish) ?? (await this.#pool.take(wish, signal));
      const outcome = await permit.endpoint.send(call, permit, signal);
      if (outcome.of === "answer") return outcome.value;
      if (outcome.of === "endpoint") {
        if (outcome.down) throw outcome.down;
        if (outcome.waitMs) await this.#pool.hold(outcome.waitMs, signal);
        continue;
      }
      if (!hasSeveral || call.hasTold) throw outcome.error;
      wish.avoided = this.#noteFailure(subject, outcome.endpoint);
      if (outcome.error.code !== "CONNECTION_LOST") throw outcome.error;
      // As if it had not been sent, as long as there is an endpoint without such a failure.
      lostAt = (lostAt ?? new Set()).add(outcome.endpoint);
      if (this.#pool.left.every((each) => lostAt?.has(each))) throw outcome.error;
    }
  }

  /** Rejects all requests from now on. */
  close(error: SluiceError): void {
    this.#closedBy = error;
  }

  #noteFailure(subject: object, endpoint: Endpoint): ReadonlySet<Endpoint> {
    const failedAt = this.#failedAt.get(subject) ?? new Set();
    this.#failedAt.set(subject, failedAt.add(endpoint));
    return failedAt;
  }
}
