import { readFile as readFileWithCallback, stat as statWithCallback } from "node:fs";
import { promisify } from "node:util";

// Those of node:fs/promises take the thread twice as long for a small file, and a run may have
// 100,000 of them.

/** The whole file. */
export const readFile: (file: string) => Promise<Buffer> = promisify(readFileWithCallback);

/** Size and kind of a file; follows links. */
export const statFile = promisify(statWithCallback);
