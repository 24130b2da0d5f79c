import { contentText, type InferenceRequest } from "../../../foundation/inference.ts";
import { textHash } from "./router.ts";

/** Characters that must be alike for two requests to go to the same endpoint. */
const keyChars = 512;
/** Characters of a request that are looked at. */
const readChars = 8192;
/** Two requests that differ in fewer are taken for questions about the same. */
const leastOwnChars = 256;
/** Requests after which what they had in common is learned anew. */
const learnedRequests = 512;

/**
 * Keys of requests that share a prefix, so that they can go where it was computed. What all
 * requests of late begin with, such as the instructions of a job, every endpoint holds: it tells
 * nothing, and the key is made of what comes behind it.
 */
export class PrefixKeys {
  #seen = 0;
  #before = "";
  /** Characters that requests had in common with those before them, at least; of two periods. */
  #common = Number.POSITIVE_INFINITY;
  #commonBefore = Number.POSITIVE_INFINITY;

  /** The key of a request; equal for those that share their prefix. */
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

/** What is read first of a request. */
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
