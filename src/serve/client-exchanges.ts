import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../foundation/clock.ts";
import { SluiceError } from "../foundation/errors.ts";
import type { ServeLimits } from "./options.ts";

/** A request and its answer, from the arrival of the headers on. */
interface ClientExchange {
  request: IncomingMessage;
  response: ServerResponse;
  /** Aborted when the client has left, or when the time of the request is over. */
  gone: AbortController;
  startMs: number;
  /** False for a form: its reader watches the arrival of each part. */
  mustArrive: boolean;
  /** Among the open ones. */
  place: number;
  /** Status of an exchange that the server cut off. */
  cut?: number;
  /** Whether its connection ends when nothing moves on it. */
  isWatched?: boolean;
}

type Timeouts = Pick<ServeLimits, "requestTimeoutMs" | "requestArrivalTimeoutMs">;

/** The status, as nginx has it, of a request whose client left before its answer was sent. */
const clientGone = 499;

/**
 * The exchanges that a listener has in work, and the limits of their time. One timer serves all of
 * them: timers of each would be a tenth of the time of a request without work.
 *
 * @example
 * const gone = exchanges.begin(request.raw, reply.raw, true, (ms, cut) => log(ms, cut ?? 200));
 */
export class ClientExchanges {
  readonly #clock: Clock;
  readonly #timeouts: Timeouts;
  /**
   * In any order. A `Set` with constant changes leaves tables behind, by which requests outlive
   * their answers until the garbage collector looks through old objects.
   */
  readonly #open: ClientExchange[] = [];
  #cancelTimer: (() => void) | undefined;

  constructor(timeouts: Timeouts, clock: Clock) {
    this.#timeouts = timeouts;
    this.#clock = clock;
  }

  /**
   * @param mustArrive whether the connection ends if the whole request does not arrive in time.
   * @param onEnded called at the end with the time in milliseconds; without a whole answer, also
   *   with its status: `clientGone`, or 408 if the request did not arrive.
   * @returns the signal that is aborted with `CLIENT_GONE` or `REQUEST_TIMED_OUT`.
   */
  begin(
    request: IncomingMessage,
    response: ServerResponse,
    mustArrive: boolean,
    onEnded: (durationMs: number, cut?: number) => void,
  ): AbortSignal {
    const gone = new AbortController();
    const startMs = this.#clock.monotonic();
    const exchange: ClientExchange = {
      request,
      response,
      gone,
      startMs,
      mustArrive,
      place: this.#open.length,
    };
    this.#open.push(exchange);
    this.#cancelTimer ??= this.#timer(this.#firstMs);
    response.on("close", () => {
      this.#remove(exchange);
      if (!request.complete && !request.destroyed) this.#limitRest(request);
      const durationMs = this.#clock.monotonic() - startMs;
      if (response.writableFinished) return onEnded(durationMs);
      gone.abort(new SluiceError("CLIENT_GONE"));
      onEnded(durationMs, exchange.cut ?? clientGone);
    });
    return gone.signal;
  }

  /** Stops the timer; open exchanges have no limits any more. */
  close(): void {
    this.#cancelTimer?.();
  }

  /** The first time at which an exchange may have to end. */
  get #firstMs(): number {
    const { requestTimeoutMs, requestArrivalTimeoutMs } = this.#timeouts;
    return Math.min(requestTimeoutMs, requestArrivalTimeoutMs);
  }

  #timer(delayMs: number): () => void {
    return this.#clock.schedule(delayMs, () => this.#endLate());
  }

  #endLate(): void {
    const { requestTimeoutMs, requestArrivalTimeoutMs } = this.#timeouts;
    const nowMs = this.#clock.monotonic();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const exchange of [...this.#open]) {
      const { request, gone, startMs, mustArrive } = exchange;
      const ageMs = nowMs - startMs;
      const isWhole = !mustArrive || request.complete;
      if (!isWhole && ageMs >= requestArrivalTimeoutMs) {
        exchange.cut = 408;
        endSlow(request);
      }
      if (ageMs >= requestTimeoutMs) {
        gone.abort(new SluiceError("REQUEST_TIMED_OUT", `after ${requestTimeoutMs / 1000} s`));
        this.#watchReader(exchange);
        nextMs = Math.min(nextMs, requestArrivalTimeoutMs);
      }
      const limits = [isWhole ? 0 : requestArrivalTimeoutMs, requestTimeoutMs];
      const left = limits.map((limitMs) => limitMs - ageMs).filter((leftMs) => leftMs > 0);
      nextMs = Math.min(nextMs, ...left);
    }
    // New ones may come, whose time is over sooner.
    const delayMs = Math.min(nextMs, this.#firstMs);
    this.#cancelTimer = nextMs === Number.POSITIVE_INFINITY ? undefined : this.#timer(delayMs);
  }

  /** A client that does not read its answer would keep it, and its connection, for ever. */
  #watchReader(exchange: ClientExchange): void {
    const { request, response, isWatched = false } = exchange;
    if (isWatched || !response.headersSent) return;
    exchange.isWatched = true;
    request.socket.setTimeout(this.#timeouts.requestArrivalTimeoutMs);
  }

  #remove(exchange: ClientExchange): void {
    const { place } = exchange;
    if (this.#open[place] !== exchange) return;
    const last = this.#open.pop()!;
    if (last === exchange) return;
    this.#open[place] = last;
    last.place = place;
  }

  /** A request that was answered before all of it had come, such as one that was refused. */
  #limitRest(request: IncomingMessage): void {
    const cancel = this.#clock.schedule(this.#timeouts.requestArrivalTimeoutMs, () => {
      if (!request.complete) endSlow(request);
    });
    request.once("close", cancel);
  }
}

function endSlow(request: IncomingMessage): void {
  request.socket.end("HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n");
  request.destroy();
}
