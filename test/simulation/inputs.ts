import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bytesReader } from "../../src/data/storage/bytes-reader.ts";
import type { RandomReader } from "../../src/data/storage/storage.ts";
import type { ErrorCode } from "../../src/foundation/error-table.ts";
import { randomInteger, seededRandom } from "../../src/foundation/random.ts";

/** A row as it lies in the input, and what is wrong with it, if anything is. */
export interface InputLine {
  raw: string;
  broken?: ErrorCode;
}

/** One input file. */
export interface SimulatedInput {
  path: string;
  lines: readonly InputLine[];
  bytes: Uint8Array;
}

export interface SimulatedInputs {
  all: readonly SimulatedInput[];
  openFile(path: string): Promise<RandomReader>;
  remove(): void;
}

const inputCount = 24;

/**
 * The inputs of all simulations. They lie on disk, because planning looks at real files, and are
 * read from memory, so that no reading of a run takes real time.
 */
export function makeInputs(): SimulatedInputs {
  const directory = mkdtempSync(join(tmpdir(), "sluice-simulation-"));
  const all = Array.from({ length: inputCount }, (_, shape) => {
    const path = join(directory, `rows-${shape}.jsonl`);
    const lines = makeLines(shape);
    const bytes = Buffer.from(fileText(lines, shape));
    writeFileSync(path, bytes);
    return { path, lines, bytes };
  });
  const byPath = new Map(all.map((input) => [input.path, input]));
  return {
    all,
    openFile: async (path) => bytesReader(byPath.get(path)!.bytes),
    remove: () => rmSync(directory, { recursive: true }),
  };
}

function makeLines(shape: number): InputLine[] {
  const random = seededRandom(shape + 1);
  const rows = 1 + randomInteger(random, shape % 3 === 0 ? 6 : 24);
  return Array.from({ length: rows }, (_, index) => {
    const chance = random.next();
    if (chance < 0.02) return { raw: `{"id": ${index}, "text":`, broken: "JSON_INVALID" };
    if (chance < 0.04) return { raw: `{"id": ${index}}`, broken: "VARIABLE_MISSING" };
    // Rows of a table of which some have a column more.
    const note = index % 5 === shape % 11 ? ', "note": "n,1"' : "";
    const padding = chance > 0.9 ? " of several words".repeat(randomInteger(random, 20)) : "";
    return { raw: `{"id": ${index}, "text": "row ${index} of ${shape}${padding}"${note}}` };
  });
}

function fileText(lines: readonly InputLine[], shape: number): string {
  const separator = shape % 4 === 1 ? "\r\n" : shape % 4 === 2 ? "\n\n" : "\n";
  const text = lines.map(({ raw }) => raw).join(separator);
  return shape % 2 === 0 ? `${text}\n` : text;
}
