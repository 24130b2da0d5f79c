import type { IncomingHttpHeaders } from "node:http";

/** How a request ended at its endpoint. */
export type AdmissionEnd =
  /** With a useful reply, or one that refuses this request alone (400, 404 …). */
  | {
      outcome: "answered";
      promptTokens: number;
      completionTokens: number;
      headers: IncomingHttpHeaders;
    }
  /** The endpoint has enough for now: 429, or 503 with Retry-After. */
  | { outcome: "limited"; retryAfterMs?: number | undefined; headers: IncomingHttpHeaders }
  /** It took too long, or the server failed: 5xx, time-out, reset, no connection. */
  | { outcome: "failed" }
  /** The caller left; says nothing about the endpoint. */
  | { outcome: "abandoned" };

/** Permission to send one request. */
export interface Admission {
  /** Must be called once, at the end of the request. */
  end(how: AdmissionEnd): void;
}
