import { sha256Stream } from "../../../foundation/hashing.ts";
import type { Footer } from "./footer.ts";

/**
 * The checksum of a range of rows: SHA-256 over the footer, the SHA-256 of each column of each
 * group, and the numbers that select the rows.
 */
export function digestOfGroups(
  footer: Footer,
  columnDigests: readonly Uint8Array[],
  { skipRows = 0, rows }: { skipRows?: number; rows: number },
): string {
  const hash = sha256Stream().update(footer.bytes);
  for (const digest of columnDigests) hash.update(digest);
  return hash.update(`${skipRows}+${rows}`).digest("hex");
}
