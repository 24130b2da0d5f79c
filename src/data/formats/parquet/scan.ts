import { limits } from "../../../foundation/limits.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { cutGroups, sliceOf } from "../cut-groups.ts";
import type { CutRule, SliceRange } from "../format.ts";
import { unreadable } from "../unreadable.ts";
import { type GroupPlace, isColumnOf, readFooter } from "./footer.ts";
import { readColumns } from "./group-bytes.ts";
import { digestOfGroups } from "./slice-groups.ts";
import { tableOf } from "./table.ts";

/** Bytes per read of a scan, which only computes checksums. */
const scanChunkBytes = 4 * limits.readChunkBytes;

/**
 * Cuts a file by its footer. The columns that rows keep are read once, for their checksums.
 *
 * @throws SluiceError `INPUT_UNREADABLE`
 */
export async function* scanParquet(
  reader: RandomReader,
  file: string,
  rule: CutRule,
): AsyncGenerator<SliceRange> {
  const footer = await readFooter(reader, file);
  tableOf(footer.metadata, file);
  const mark = Buffer.from(await reader.read(0, 4)).toString("latin1");
  if (mark !== "PAR1") throw unreadable(file, "it does not begin with the mark PAR1");
  const isKept = isColumnOf(rule.columns);
  let last: { group: GroupPlace; digests: Uint8Array[] } | undefined;
  for (const range of cutGroups(footer.groups, rule)) {
    const digests: Uint8Array[] = [];
    for (const group of range.groups) {
      // Ranges of the same group come one after another.
      if (last?.group !== group) {
        const columns = group.columns.filter(isKept);
        const reading = { readBytes: scanChunkBytes };
        last = { group, digests: await readColumns(reader, file, columns, reading) };
      }
      digests.push(...last.digests);
    }
    yield sliceOf(range, digestOfGroups(footer, digests, range));
  }
}
