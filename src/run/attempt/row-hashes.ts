import { hash } from "node:crypto";
import type { InputRow } from "../../data/row.ts";

const hashBytes = 8;

/** Hashes of the rows of a task, in input order: they show later which rows changed. */
export class RowHashes {
  #bytes = Buffer.alloc(hashBytes * 256);
  #rows = 0;

  add({ raw, rawBase64 }: InputRow): void {
    if ((this.#rows + 1) * hashBytes > this.#bytes.length) {
      this.#bytes = Buffer.concat([this.#bytes, Buffer.alloc(this.#bytes.length)]);
    }
    const content = rawBase64 === undefined ? raw : Buffer.from(rawBase64, "base64");
    hash("sha256", content, "buffer").copy(this.#bytes, this.#rows++ * hashBytes, 0, hashBytes);
  }

  /** The file of them. */
  toBytes(): Buffer {
    return this.#bytes.subarray(0, this.#rows * hashBytes);
  }
}

/**
 * Numbers of the rows that differ between two such files, from 0; undefined if their lengths
 * differ.
 */
export function changedRows(before: Uint8Array, now: Uint8Array): number[] | undefined {
  if (before.length !== now.length) return undefined;
  const [old, fresh] = [Buffer.from(before), Buffer.from(now)];
  const changed: number[] = [];
  for (let at = 0; at < old.length; at += hashBytes) {
    if (old.compare(fresh, at, at + hashBytes, at, at + hashBytes) !== 0) {
      changed.push(at / hashBytes);
    }
  }
  return changed;
}
