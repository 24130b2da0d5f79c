import type { CatalogEntry } from "./catalog.ts";
import type { ModelContext } from "./model-context.ts";

/** How one mirror did. A file that was fetched lies whole and checked at the fetch's `part`. */
export type FetchOutcome =
  | { state: "fetched"; sha256: string; bytes: number }
  | { state: "failed"; reason: string; kind?: FailureKind };

/** `wrong`: bytes came, and they are not those of the model. */
export type FailureKind = "forbidden" | "absent" | "wrong";

/** What a mirror is asked to do. */
export interface FetchTask {
  /** Name of the model, for messages. */
  name: string;
  /** Where the bytes go; kept between tries where the mirror can resume. */
  part: string;
  /** What the file must be, as far as it is known. */
  expected: Partial<Pick<CatalogEntry, "sha256" | "bytes">>;
  context: ModelContext;
  onProgress: (bytes: number, totalBytes?: number) => void;
}

/** Whether what was fetched is what was asked for. */
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

/** A mirror that did not do. */
export function failed(reason: string, kind?: FailureKind): FetchOutcome {
  return kind === undefined ? { state: "failed", reason } : { state: "failed", reason, kind };
}
