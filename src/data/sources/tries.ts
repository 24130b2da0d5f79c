import { sleep } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { headerValue, networkReason, type RemoteResponse } from "../../foundation/remote-file.ts";
import { backoffMs, parseRetryAfter } from "../../foundation/retry.ts";
import type { SourceContext } from "./source-store.ts";

/** A try that failed and may be made again. */
export class Interrupted extends Error {
  readonly retryAfterMs: number | undefined;

  constructor(reason: string, retryAfterMs?: number) {
    super(reason);
    this.retryAfterMs = retryAfterMs;
  }
}

/** Failures to connect that no waiting mends. */
const lastingCode = /^(ENOTFOUND|ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/;

/**
 * Asks a web server until it answers, with growing waits, or after the time that it asks for.
 *
 * @param file what messages name.
 * @throws SluiceError `INPUT_UNREACHABLE` when all tries failed, and whatever `action` throws.
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

/** A body of so many bytes is cheaper to read than a new connection. */
const maxDroppedBytes = 16 * 1024;

/** Lets go of an answer's body. */
export async function dropBody({ body }: RemoteResponse): Promise<void> {
  await body.dump({ limit: maxDroppedBytes });
}

/** What an answer that has no file comes to: another try, or the end. */
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
