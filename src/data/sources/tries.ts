import { sleep } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { headerValue, networkReason, type RemoteResponse } from "../../foundation/remote-file.ts";
import { backoffMs, parseRetryAfter } from "../../foundation/retry.ts";
import type { SourceContext } from "./source-store.ts";

/** A request that failed and may be sent again. */
export class Interrupted extends Error {
  readonly retryAfterMs: number | undefined;

  constructor(reason: string, retryAfterMs?: number) {
    super(reason);
    this.retryAfterMs = retryAfterMs;
  }
}

/** Connection errors that waiting does not mend. */
const lastingCode = /^(ENOTFOUND|ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/;

/**
 * Sends a request to a web server until it succeeds, with growing waits, or after the time that the
 * server demands.
 *
 * @param file the name in messages.
 * @throws SluiceError `INPUT_UNREACHABLE` if all tries failed, and whatever else `action` throws.
 */
export async function askedAgain<T>(
  file: string,
  { clock, random }: Pick<SourceContext, "clock" | "random">,
  action: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await action();
    } catch (error) {
      if (error instanceof SluiceError) throw error;
      signal?.throwIfAborted();
      const isLasting = lastingCode.test(`${(error as NodeJS.ErrnoException).code ?? ""}`);
      if (isLasting || attempt >= limits.maxSourceAttempts) {
        throw new SluiceError("INPUT_UNREACHABLE", networkReason(error), { file, cause: error });
      }
      const retryAfterMs = error instanceof Interrupted ? error.retryAfterMs : undefined;
      await sleep(clock, backoffMs(attempt, random, undefined, retryAfterMs), signal);
    }
  }
}

/** Reading a body of this size is cheaper than a new connection. */
const maxDroppedBytes = 16 * 1024;

/** Discards a response's body. */
export async function dropBody({ body }: RemoteResponse): Promise<void> {
  await body.dump({ limit: maxDroppedBytes });
}

/** What to do after a response without a file: an error to retry, or a final one. */
export function failureOf(
  { status, headers }: RemoteResponse,
  file: string,
  { clock }: Pick<SourceContext, "clock">,
  options: { hint?: string } = {},
): Error {
  if (status === 404 || status === 410) return new SluiceError("NOT_FOUND", "", { file });
  if (status === 408 || status === 425 || status === 429 || status >= 500) {
    const retryAfterMs = parseRetryAfter(headerValue(headers["retry-after"]), clock.now());
    return new Interrupted(`HTTP ${status}`, retryAfterMs);
  }
  return new SluiceError("INPUT_UNREADABLE", `HTTP ${status}`, { file, ...options });
}
