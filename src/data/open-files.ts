import { type ErrorCode, errorTable } from "../foundation/error-table.ts";
import { SluiceError } from "../foundation/errors.ts";
import type { RandomReader } from "./storage/storage.ts";

/** What is known of a file before it is opened. */
export interface OpenHints {
  /** The file's ETag when it was found; if it differs now, the file has changed. */
  etag?: string | undefined;
  /** No byte is read ahead from this offset on. */
  end?: number | undefined;
  /** Bounds of opening, which may take as long as a download of the whole file. */
  bounds?: OpenBounds;
}

export interface OpenBounds {
  /** Ends a download; a downloaded file is then of this reader alone. */
  signal: AbortSignal;
  /** Throws if a file of so many bytes is too large. */
  assertBytes(bytes: number): void;
}

/** Opens an input file by its path in the plan. */
export type OpenFile = (path: string, hints?: OpenHints) => Promise<RandomReader>;

export interface FileToOpen extends OpenHints {
  path: string;
}

/** Files opened ahead of their reader: opening a small file takes longer than reading it. */
const openAhead = 8;

/**
 * Opens files in order, some ahead of the one in use. Each is closed when the next one is
 * requested.
 *
 * @param absentCode of the error if a file does not exist.
 */
export async function* openInOrder(
  files: Iterable<FileToOpen>,
  openFile: OpenFile,
  absentCode: ErrorCode,
): AsyncGenerator<RandomReader> {
  const waiting: Promise<RandomReader>[] = [];
  const iterator = files[Symbol.iterator]();
  const openNext = () => {
    const { done, value: file } = iterator.next();
    if (done) return;
    const { path, etag, end } = file;
    const opening = openFile(path, { etag, end }).catch((error) => {
      throw inputError(error, path, absentCode);
    });
    // A failure is reported in its turn, or never if the reader stops before.
    opening.catch(() => {});
    waiting.push(opening);
  };
  for (let count = 0; count < openAhead; count++) openNext();
  try {
    for (let opening = waiting.shift(); opening; opening = waiting.shift()) {
      const reader = await opening;
      openNext();
      try {
        yield reader;
      } finally {
        await reader.close();
      }
    }
  } finally {
    for (const opening of waiting) await opening.then((reader) => reader.close()).catch(() => {});
  }
}

function inputError(error: unknown, file: string, absentCode: ErrorCode): unknown {
  if (!(error instanceof SluiceError) || error.code.startsWith("INPUT_")) return error;
  const { code, message, hint, place } = error;
  const shown = place.file ?? file;
  if (code === "NOT_FOUND") return new SluiceError(absentCode, "the file is gone", { file: shown });
  const own = hint === errorTable[code].hint ? {} : { hint };
  return new SluiceError("INPUT_UNREADABLE", message, { file: shown, cause: error, ...own });
}
