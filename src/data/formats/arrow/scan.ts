import { sha256Stream } from "../../../foundation/hashing.ts";
import { limits } from "../../../foundation/limits.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { chunksOf } from "../chunks.ts";
import { cutGroups, sliceOf } from "../cut-groups.ts";
import type { CutRule, SliceRange } from "../format.ts";
import { ArrowDigest } from "./arrow-digest.ts";
import { openArrow } from "./arrow-file.ts";
import { keptColumns, tableOf } from "./table.ts";

/** Bytes per read of a scan, which only computes checksums. */
const scanChunkBytes = 4 * limits.readChunkBytes;

interface Place {
  start: number;
  end: number;
  rows: number;
}

/**
 * Cuts a file at its record batches. Their bytes are read once, for their checksums.
 *
 * @throws SluiceError `INPUT_UNREADABLE`
 */
export async function* scanArrow(
  reader: RandomReader,
  file: string,
  rule: CutRule,
): AsyncGenerator<SliceRange> {
  const arrow = await openArrow(reader, file);
  keptColumns(tableOf(arrow.schema, file), file, rule.columns);
  const places: Place[] = [];
  const dictionaries: { before: number; digest: Uint8Array }[] = [];
  for await (const { kind, start, end, rows = 0 } of arrow.messages()) {
    if (kind === "batch" && rows > 0) places.push({ start, end, rows });
    if (kind !== "dictionary") continue;
    const digest = await digestOf(reader, file, { start, end });
    dictionaries.push({ before: places.length, digest });
  }
  const numbers = new Map(places.map((place, number) => [place, number]));
  let last: { place: Place; digest: Uint8Array } | undefined;
  for (const range of cutGroups(places, rule)) {
    const digest = new ArrowDigest(arrow);
    const number = numbers.get(range.groups.at(-1)!)!;
    for (const each of dictionaries)
      if (each.before <= number) digest.add("dictionary", each.digest);
    for (const place of range.groups) {
      // Ranges of the same batch come one after another.
      if (last?.place !== place) last = { place, digest: await digestOf(reader, file, place) };
      digest.add("batch", last.digest);
    }
    yield sliceOf(range, digest.of(range));
  }
}

async function digestOf(
  reader: RandomReader,
  file: string,
  place: { start: number; end: number },
): Promise<Uint8Array> {
  const hash = sha256Stream();
  for await (const chunk of chunksOf(reader, file, place, scanChunkBytes)) hash.update(chunk);
  return hash.digest();
}
