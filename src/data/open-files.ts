import type { ErrorCode } from "../foundation/error-table.ts";
import { SluiceError } from "../foundation/errors.ts";
import { openStorage } from "./storage/open.ts";
import type { RandomReader } from "./storage/storage.ts";

/** Opens an input file by its path in the plan. */
export type OpenFile = (path: string) => Promise<RandomReader>;

const thisMachine = openStorage("/");

/** Opens a file of this machine by its absolute path. */
export const openLocalFile: OpenFile = (path) => thisMachine.open(path);

/** Files opened before they are read: small ones cost more to open than to read. */
const openAhead = 8;

/**
 * Opens files in order, some ahead of the one in use; each is closed when the next is asked for.
 *
 * @param absentCode the error of a file that is not there.
 */
export async function* openInOrder(
  paths: Iterable<string>,
  openFile: OpenFile,
  absentCode: ErrorCode,
): AsyncGenerator<RandomReader> {
  const waiting: Promise<RandomReader>[] = [];
  const iterator = paths[Symbol.iterator]();
  const openNext = () => {
    const { done, value: path } = iterator.next();
    if (done) return;
    const opening = openFile(path).catch((error) => {
      throw inputError(error, path, absentCode);
    });
    // One that fails is reported in its turn, or never when the reader left before.
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
  if (!(error instanceof SluiceError)) return error;
  const code = error.code === "NOT_FOUND" ? absentCode : "INPUT_UNREADABLE";
  const detail = error.code === "NOT_FOUND" ? "the file is gone" : error.message;
  return new SluiceError(code, detail, { file, cause: error });
}
