import { type ReplyFacts, type RequestFacts, replyKey, requestKey } from "../handler-rows.ts";
import type { HandlerCalls, Predictor, PredictorItem } from "./predictor.ts";

/** The predictor of an archive, whose rows carry their requests. */
export function archivePredictor(inner: Predictor): Predictor {
  return {
    load: (context) => inner.load?.(context),
    close: () => inner.close?.(),
    async predict(batch, call) {
      const requests = new BatchRequests(batch.map(requestIn));
      const bare = batch.map((item) =>
        requestIn(item) ? { ...item, row: item.row.row as PredictorItem["row"] } : item,
      );
      const results = await inner.predict(bare, { ...call, requests: requests.calls });
      // A wrong number of results is named by the caller.
      if (!Array.isArray(results) || results.length !== batch.length) return results;
      return results.map(async (result, at) => requests.withReply(at, await result));
    },
  };
}

/** The request of an item; undefined if it came in by another wire, such as OpenAI's. */
function requestIn({ row }: PredictorItem): RequestFacts | undefined {
  if (typeof row !== "object" || row === null || !Object.hasOwn(row, requestKey)) return undefined;
  return row[requestKey] as unknown as RequestFacts;
}

/** The requests of one batch, and what is said of their replies. */
class BatchRequests {
  readonly #requests: readonly (RequestFacts | undefined)[];
  readonly #replies = new Map<number, ReplyFacts>();

  constructor(requests: readonly (RequestFacts | undefined)[]) {
    this.#requests = requests;
  }

  readonly calls: HandlerCalls = {
    get_request_id: (idx = 0) => this.#requests[idx]?.id,
    get_request_header: (idx, key) => {
      const headers = this.#requests[idx]?.headers ?? {};
      if (Object.hasOwn(headers, key)) return headers[key];
      const found = Object.entries(headers).find(
        ([name]) => name.toLowerCase() === key.toLowerCase(),
      );
      return found?.[1];
    },
    get_all_request_header: (idx) => this.#requests[idx]?.headers ?? {},
    set_response_content_type: (idx, value) => {
      this.#reply(idx).contentType = String(value);
    },
    set_response_header: (idx, key, value) => {
      const reply = this.#reply(idx);
      if (key.toLowerCase() === "content-type") reply.contentType = String(value);
      else reply.headers.push([key, String(value)]);
    },
    set_response_status: (code = 200, phrase = "", idx = 0) => {
      Object.assign(this.#reply(idx), { status: code, reason: phrase });
    },
    set_all_response_status: (code, phrase) => {
      for (const idx of this.#requests.keys()) this.calls.set_response_status(code, phrase, idx);
    },
  };

  withReply(at: number, result: unknown): unknown {
    const facts = this.#replies.get(at);
    const isPlain = facts === undefined || this.#requests[at] === undefined;
    if (isPlain || result instanceof Error) return result;
    return { result, [replyKey]: facts };
  }

  #reply(idx: number): ReplyFacts {
    const known = this.#replies.get(idx);
    if (known) return known;
    const made: ReplyFacts = { status: 200, reason: "", headers: [] };
    this.#replies.set(idx, made);
    return made;
  }
}
