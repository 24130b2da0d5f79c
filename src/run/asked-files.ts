import { dirname, isAbsolute, join } from "node:path";
import type { InferenceRequest } from "../foundation/inference.ts";

/**
 * Requests of a row with whole paths of the files that they ask about, which rows name as they lie
 * beside their input.
 *
 * @param inputFile the file in which the row stands.
 */
export function withWholePaths(
  requests: InferenceRequest[],
  inputFile: string,
): InferenceRequest[] {
  for (const request of requests) {
    if (request.file === undefined || isAbsolute(request.file)) continue;
    request.file = join(dirname(inputFile), request.file);
  }
  return requests;
}
