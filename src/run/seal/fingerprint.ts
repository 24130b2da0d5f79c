import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { sha256Stream } from "../../foundation/hashing.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { fileChunks } from "../directory/lines.ts";

/** A segment of a file that must have this checksum. */
export interface Segment {
  bytes: number;
  sha256: string;
}

/** The facts about a stored file that a seal states. */
export interface Fingerprint {
  bytes: number;
  /** Line ends. */
  lines: number;
  sha256: string;
  /** Number of the first segment that differs; undefined if none does. */
  wrongSegment: number | undefined;
}

/**
 * Reads a file once from start to end.
 *
 * @param segments consecutive segments from its start, if they are to be checked.
 * @throws SluiceError `NOT_FOUND`.
 */
export async function fingerprint(
  storage: Storage,
  path: string,
  segments: readonly Segment[] = [],
): Promise<Fingerprint> {
  const digest = sha256Stream();
  const cutter = new SegmentCheck(segments);
  let [bytes, lines] = [0, 0];
  for await (const chunk of fileChunks(storage, path)) {
    digest.update(chunk);
    cutter.add(chunk);
    bytes += chunk.length;
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++;
  }
  return { bytes, lines, sha256: digest.digest("hex"), wrongSegment: cutter.end() };
}

/**
 * Compares a stored file with its stated facts.
 *
 * @param lines the number of lines it must have; undefined if rows are not single lines.
 * @param segments its segments, each with its task.
 * @returns the bytes read, and the fault, for people.
 */
export async function lookAtFile(
  storage: Storage,
  file: FileRecord,
  lines?: number,
  segments?: readonly Segment[],
): Promise<{ bytes: number; problem?: string }> {
  let found: Fingerprint;
  try {
    found = await fingerprint(storage, file.path, segments);
  } catch (error) {
    const { code, message } = asSluiceError(error);
    return { bytes: 0, problem: code === "NOT_FOUND" ? "the file is missing" : message };
  }
  const { bytes } = found;
  const task = found.wrongSegment;
  const where = task === undefined ? "" : `; rows of task ${task} are not as committed`;
  if (lines !== undefined && found.lines !== lines) {
    return { bytes, problem: `it has ${found.lines} rows, ${lines} were sealed${where}` };
  }
  if (bytes !== file.bytes) {
    return { bytes, problem: `it has ${bytes} bytes, ${file.bytes} were sealed${where}` };
  }
  if (found.sha256 !== file.sha256) {
    return { bytes, problem: `its content is not what was sealed (checksum differs)${where}` };
  }
  return task === undefined ? { bytes } : { bytes, problem: where.slice(2) };
}

class SegmentCheck {
  readonly #segments: readonly Segment[];
  #at = 0;
  #digest = sha256Stream();
  #left: number;
  #wrong: number | undefined;

  constructor(segments: readonly Segment[]) {
    this.#segments = segments;
    this.#left = segments[0]?.bytes ?? 0;
    this.#settle();
  }

  add(chunk: Uint8Array): void {
    let rest = chunk;
    while (rest.length > 0 && this.#at < this.#segments.length) {
      const taken = rest.subarray(0, this.#left);
      this.#digest.update(taken);
      this.#left -= taken.length;
      rest = rest.subarray(taken.length);
      this.#settle();
    }
  }

  end(): number | undefined {
    return this.#wrong ?? (this.#at < this.#segments.length ? this.#at : undefined);
  }

  /** Ends every complete segment; some are empty. */
  #settle(): void {
    while (this.#left === 0 && this.#at < this.#segments.length) {
      const isRight = this.#digest.digest("hex") === this.#segments[this.#at]!.sha256;
      if (!isRight) this.#wrong ??= this.#at;
      this.#at++;
      this.#digest = sha256Stream();
      this.#left = this.#segments[this.#at]?.bytes ?? 0;
    }
  }
}
