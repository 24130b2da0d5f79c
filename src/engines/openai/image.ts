import { readFile, stat } from "node:fs/promises";
import { extname } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";

/** Servers' names for image formats. */
const mediaTypes: Readonly<Record<string, string>> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".webp": "image/webp",
  ".gif": "image/gif",
};

/**
 * A local image as an address with its content, `data:image/png;base64,…`, which a chat can
 * contain.
 *
 * @param file a path, or such an address, which stays unchanged.
 * @throws SluiceError `FILE_UNREADABLE` if it is missing, is not an image by its extension, or has
 *   more than `limits.maxImageBytes`.
 */
export async function imageAddress(file: string): Promise<string> {
  if (file.startsWith("data:")) return file;
  const mediaType = mediaTypes[extname(file).toLowerCase()];
  if (mediaType === undefined) {
    const known = Object.keys(mediaTypes).join(", ");
    throw new SluiceError("FILE_UNREADABLE", `${file}: images end in ${known}`);
  }
  return `data:${mediaType};base64,${(await bytesOf(file)).toString("base64")}`;
}

async function bytesOf(file: string): Promise<Buffer> {
  const unreadable = (detail: string) => new SluiceError("FILE_UNREADABLE", `${file}: ${detail}`);
  try {
    const found = await stat(file);
    if (!found.isFile()) throw unreadable("it is not a file");
    const { size } = found;
    if (size <= limits.maxImageBytes) return await readFile(file);
    throw unreadable(`${size} bytes, the most is ${limits.maxImageBytes}`);
  } catch (error) {
    if (error instanceof SluiceError) throw error;
    throw unreadable(String((error as NodeJS.ErrnoException).code));
  }
}
