import { textHash } from "../../../foundation/hashing.ts";
import { contentText, type InferenceRequest } from "../../../foundation/inference.ts";

/** Common characters that send two requests to the same endpoint. */
const keyChars = 512;
/** Characters of a request that are compared. */
const readChars = 8192;
/** Two requests that differ in fewer count as questions about the same text. */
const leastOwnChars = 256;
/** Requests after which their common beginning is learned again. */
const learnedRequests = 512;

/**
 * Keys of requests with a common prefix, so that they can go where it was computed. A beginning of
 * all recent requests, such as the instructions of a job, is at every endpoint: it says nothing,
 * and the key is made from the text after it.
 */
export class PrefixKeys {
  #seen = 0;
  #before = "";
  /** Least common characters of requests with earlier ones; of two periods. */
  #common = Number.POSITIVE_INFINITY;
  #commonBefore = Number.POSITIVE_INFINITY;

  /** The key of a request; equal for requests with a common prefix. */
  keyOf(request: Pick<InferenceRequest, "messages" | "prompt">): number {
    const known = Math.min(this.#common, this.#commonBefore);
    const start = Number.isFinite(known) ? known : 0;
    const text = beginningOf(request);
    this.#learn(text);
    return textHash(text, start, Math.min(text.length, start + keyChars));
  }

  #learn(text: string): void {
    if (this.#seen++ % learnedRequests === 0) {
      this.#commonBefore = this.#common;
      this.#common = Number.POSITIVE_INFINITY;
    }
    const most = Math.min(this.#before.length, text.length) - leastOwnChars;
    const shared = sharedLength(this.#before, text, Math.min(this.#common, most + 1));
    if (shared <= most && this.#seen > 1) this.#common = Math.min(this.#common, shared);
    this.#before = text;
  }
}

/** The first text of a request. */
function beginningOf({
  messages,
  prompt = "",
}: Pick<InferenceRequest, "messages" | "prompt">): string {
  if (messages === undefined) return prompt.slice(0, readChars);
  let text = "";
  for (const { role, content } of messages) {
    text += `${role}\n${contentText(content)}\n`;
    if (text.length >= readChars) break;
  }
  return text.slice(0, readChars);
}

function sharedLength(a: string, b: string, most: number): number {
  let at = 0;
  while (at < most && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  return at;
}
