import { SluiceError } from "./errors.ts";

const units: Record<string, number> = { K: 1, M: 2, G: 3, T: 4 };

/**
 * Bytes of a size such as `120G` or `512MiB`, in powers of 1024.
 *
 * @throws SluiceError `JOB_INVALID` for a text that is not a size.
 */
export function parseMemory(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([KMGT])/i.exec(text);
  if (!match) throw new SluiceError("JOB_INVALID", `"${text}" is not a size such as 120G`);
  return Number(match[1]) * 1024 ** units[match[2]!.toUpperCase()]!;
}
