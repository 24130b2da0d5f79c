import { demandedWaitMs, withBackoff } from "../../foundation/backoff.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { networkReason, type RemoteResponse } from "../../foundation/remote-file.ts";
import type { SourceContext } from "./source-store.ts";

/** A request that failed and may be sent again. */
export class Interrupted extends Error {
  readonly retryAfterMs: number | undefined;

  constructor(reason: string, retryAfterMs?: number) {
    super(reason);
    this.retryAfterMs = retryAfterMs;
  }
}

/** Connection errors that waiting does not fix. */
const lastingCode = /^(ENOTFOUND|ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/;

/**
 * Sends a request to a web server until it succeeds, with growing waits, or after the time that the
 * server demands.
 *
 * @param file the name in messages.
 * @throws SluiceError `INPUT_UNREACHABLE` if all tries failed, and whatever else `action` throws.
 */
export async function withTries<T>(
  file: string,
  { clock, random }: Pick<SourceContext, "clock" | "random">,
  action: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const isTransient = (error: unknown) =>
    !(error instanceof SluiceError || signal?.aborted) &&
    !lastingCode.test(`${(error as NodeJS.ErrnoException).code ?? ""}`);
  try {
    const maxTries = limits.maxSourceTries;
    return await withBackoff(action, { clock, random, maxTries, isTransient, signal });
  } catch (error) {
    if (error instanceof SluiceError) throw error;
    signal?.throwIfAborted();
    throw new SluiceError("INPUT_UNREACHABLE", networkReason(error), { file, cause: error });
  }
}

/** Reading a body of this size is cheaper than a new connection. */
const maxDroppedBytes = 16 * 1024;

/** Discards a response's body. */
export async function dropBody({ body }: RemoteResponse): Promise<void> {
  await body.dump({ limit: maxDroppedBytes });
}

/** The error of a response without a file; after `Interrupted`, another try may succeed. */
export function failureOf(
  { status, headers }: RemoteResponse,
  file: string,
  { clock }: Pick<SourceContext, "clock">,
  options: { hint?: string } = {},
): Error {
  if (status === 404 || status === 410) return new SluiceError("NOT_FOUND", "", { file });
  if (status === 408 || status === 425 || status === 429 || status >= 500) {
    return new Interrupted(`HTTP ${status}`, demandedWaitMs(headers, clock.now()));
  }
  return new SluiceError("INPUT_UNREADABLE", `HTTP ${status}`, { file, ...options });
}
