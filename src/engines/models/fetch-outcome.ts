import type { CatalogEntry } from "./catalog.ts";
import type { AssertHeld } from "./file-lock.ts";
import type { ModelContext } from "./model-context.ts";

/** The outcome of one mirror. A fetched file is complete and checked at the fetch's `part`. */
export type FetchOutcome =
  | { state: "fetched"; sha256: string; bytes: number }
  | { state: "failed"; reason: string; kind?: FailureKind; hint?: string; answer?: Answer };

/** What a server said instead of giving the file; absent for a server that it redirected to. */
interface Answer {
  status: number;
  /** The hub's header `x-error-code`. */
  code: string | undefined;
}

/** `wrong`: the received bytes are not those of the model. */
export type FailureKind = "forbidden" | "absent" | "wrong";

/** The task of a mirror. */
export interface FetchTask {
  /** Name of the model, for messages. */
  name: string;
  /** Where the bytes go; kept between tries if the mirror can resume. */
  part: string;
  /** The known facts of the file. */
  expected: Partial<Pick<CatalogEntry, "sha256" | "bytes">>;
  context: ModelContext;
  /** Whether the model may be had elsewhere as well. */
  hasOtherMirror: boolean;
  /** That the lock of `part` is held. */
  assertHeld: AssertHeld;
  onProgress: (bytes: number, totalBytes?: number) => void;
}

/** Whether the fetched file is the requested one. */
export function checkFetched(
  expected: FetchTask["expected"],
  found: { sha256: string; bytes: number },
): FetchOutcome {
  if (expected.bytes !== undefined && found.bytes !== expected.bytes) {
    return failed(`the file has ${found.bytes} bytes, not ${expected.bytes}`, "wrong");
  }
  if (expected.sha256 !== undefined && found.sha256 !== expected.sha256) {
    return failed(`the file's sha256 is ${found.sha256}, not ${expected.sha256}`, "wrong");
  }
  return { state: "fetched", ...found };
}

/** A mirror that failed. */
export function failed(reason: string, kind?: FailureKind, answer?: Answer): FetchOutcome {
  return { state: "failed", reason, ...(kind && { kind }), ...(answer && { answer }) };
}
