import { open } from "node:fs/promises";
import { SluiceError } from "../../foundation/errors.ts";
import { splitPartOf } from "../models/split-files.ts";

const oldestVersion = 2;
const newestVersion = 3;
const headerBytes = 24;

/**
 * Checks the head of a model file before native code does, so that a wrong file is reported as
 * such.
 *
 * @throws SluiceError `MODEL_UNREADABLE` or `MODEL_CORRUPT`, with the file.
 */
export async function checkGgufFile(path: string): Promise<{ bytes: number }> {
  const place = { file: path };
  const file = await open(path, "r").catch((cause: Error) => {
    throw new SluiceError("MODEL_UNREADABLE", cause.message, { ...place, cause });
  });
  try {
    const { size } = await file.stat();
    const { bytesRead, buffer } = await file
      .read(Buffer.alloc(headerBytes), 0, headerBytes, 0)
      .catch((cause: Error) => {
        throw new SluiceError("MODEL_UNREADABLE", cause.message, { ...place, cause });
      });
    if (bytesRead < headerBytes) {
      throw new SluiceError("MODEL_CORRUPT", `it has only ${size} bytes`, place);
    }
    if (buffer.toString("latin1", 0, 4) !== "GGUF") {
      throw new SluiceError("MODEL_CORRUPT", "it does not begin with GGUF", place);
    }
    const version = buffer.readUInt32LE(4);
    if (version < oldestVersion || version > newestVersion) {
      const known = `known are ${oldestVersion} to ${newestVersion}`;
      throw new SluiceError("MODEL_CORRUPT", `GGUF version ${version}; ${known}`, place);
    }
    // The first part of a split model may hold only its description.
    if (buffer.readBigUInt64LE(8) === 0n && !splitPartOf(path)) {
      throw new SluiceError("MODEL_CORRUPT", "it holds no tensors", place);
    }
    return { bytes: size };
  } finally {
    await file.close();
  }
}
