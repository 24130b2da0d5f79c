import { SluiceError } from "../../../foundation/errors.ts";
import { sha256Stream } from "../../../foundation/hashing.ts";
import type { Slice } from "../../row.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { type Footer, type GroupPlace, readFooter } from "./footer.ts";

export async function footerAsPlanned(reader: RandomReader, slice: Slice): Promise<Footer> {
  try {
    return await readFooter(reader, slice.file);
  } catch (cause) {
    if (!(cause instanceof SluiceError) || cause.code !== "INPUT_UNREADABLE") throw cause;
    throw new SluiceError("INPUT_CHANGED", "its footer is another", { file: slice.file, cause });
  }
}

export function groupsOf(footer: Footer, slice: Slice): GroupPlace[] {
  const groups = footer.groups.filter(({ start, end }) => start >= slice.start && end <= slice.end);
  // For a slice with groups, the checksum would tell as well.
  if (groups.length > 0 || slice.rows === 0) return groups;
  throw new SluiceError("INPUT_CHANGED", "its row groups are others", { file: slice.file });
}

/** @throws SluiceError `INPUT_CHANGED` if the columns do not have the planned checksums. */
export function verify(footer: Footer, digests: readonly Uint8Array[], slice: Slice): void {
  if (digestOfGroups(footer, digests, slice) === slice.sha256) return;
  const place = `bytes ${slice.start} to ${slice.end}, or its footer, have another checksum`;
  throw new SluiceError("INPUT_CHANGED", place, { file: slice.file });
}

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
