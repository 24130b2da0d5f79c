import { sha256Stream } from "../../../foundation/hashing.ts";
import type { ArrowFile } from "./arrow-file.ts";

/**
 * The checksum of a range of rows: SHA-256 over the file's head, the SHA-256 of each dictionary in
 * use, the SHA-256 of each record batch, and the numbers that select the rows.
 */
export class ArrowDigest {
  readonly #head: Buffer;
  readonly #dictionaries: Uint8Array[] = [];
  readonly #batches: Uint8Array[] = [];

  constructor({ head }: Pick<ArrowFile, "head">) {
    this.#head = head;
  }

  add(kind: "dictionary" | "batch", digest: Uint8Array): void {
    (kind === "batch" ? this.#batches : this.#dictionaries).push(digest);
  }

  of({ skipRows = 0, rows }: { skipRows?: number; rows: number }): string {
    const hash = sha256Stream().update(this.#head);
    for (const digest of [...this.#dictionaries, ...this.#batches]) hash.update(digest);
    return hash.update(`${skipRows}+${rows}`).digest("hex");
  }
}
