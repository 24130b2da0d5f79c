import { SluiceError } from "../../foundation/errors.ts";
import {
  type DispatcherFor,
  headerValue,
  type RemoteResponse,
  readBody,
  requestRemoteFile,
} from "../../foundation/remote-file.ts";
import type { SourceContext } from "./source-store.ts";
import { dropBody, failureOf, Interrupted, withTries } from "./tries.ts";

/** A file on a web server, and how to request it. */
export interface HttpFileOptions {
  /** Its name in plans and messages. */
  path: string;
  url: string;
  /** Sent to the origin of `url` only. */
  token?: string;
  dispatcher: DispatcherFor;
  context: SourceContext;
  /** What a response says of the content's identity; default: its ETag or its date. */
  tagOf?(answer: RemoteResponse): string | undefined;
}

/** What a server says of a file before its bytes are requested. */
export interface HttpFacts {
  /** Undefined if the server does not say. */
  bytes: number | undefined;
  modifiedMs: number;
  etag: string | undefined;
  /** True if the server serves any range. */
  hasRanges: boolean;
}

/**
 * A file on a web server. A request that breaks, or that the server postpones, is sent again after
 * growing waits, or after the time that the server demands.
 */
export class HttpFile {
  readonly #options: HttpFileOptions;
  /** The address that the last redirects led to. */
  #direct: string | undefined;

  constructor(options: HttpFileOptions) {
    this.#options = options;
  }

  /**
   * Requests one byte, because some servers, and signed addresses, do not allow HEAD.
   *
   * @throws SluiceError `NOT_FOUND`, `INPUT_UNREADABLE`, `INPUT_UNREACHABLE`.
   */
  facts(signal?: AbortSignal): Promise<HttpFacts> {
    return this.#withTries(async () => {
      const answer = await this.#ask({ range: "bytes=0-0" }, signal);
      await dropBody(answer);
      const { status, headers } = answer;
      this.#assertPlain(answer);
      const modified = Date.parse(headerValue(headers["last-modified"]) ?? "");
      const facts = {
        etag: this.#tagOf(answer),
        modifiedMs: Number.isNaN(modified) ? 0 : modified,
      };
      const total = /\/(\d+)\s*$/.exec(headerValue(headers["content-range"]) ?? "")?.[1];
      if (status === 206 && total !== undefined) {
        return { ...facts, bytes: Number(total), hasRanges: true };
      }
      // An empty file has no first byte.
      if (status === 416 && total === "0") return { ...facts, bytes: 0, hasRanges: true };
      if (status !== 200 && status !== 206) throw this.#failure(answer);
      const length = headerValue(headers["content-length"]);
      const bytes = status === 200 && length !== undefined ? Number(length) : undefined;
      return { ...facts, bytes, hasRanges: false };
    }, signal);
  }

  /**
   * The bytes of a range, of the content that `etag` names.
   *
   * @throws SluiceError as `facts`, and `INPUT_CHANGED`.
   */
  range(
    start: number,
    end: number,
    { bytes, etag }: Pick<HttpFacts, "bytes" | "etag">,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const asked: Record<string, string> = { range: `bytes=${start}-${end - 1}` };
    if (etag !== undefined && isStrong(etag)) asked["if-range"] = etag;
    return this.#withTries(async () => {
      const answer = await this.#ask(asked, signal);
      const { status, headers } = answer;
      const range = /^bytes (\d+)-\d+\/(\d+)/.exec(headerValue(headers["content-range"]) ?? "");
      const isAsked = Number(range?.[1]) === start && Number(range?.[2]) === bytes;
      const isSame = this.#isSame(etag, answer);
      if (status === 206 && isAsked && isSame) return await bytesOf(answer, end - start);
      await dropBody(answer);
      if ([200, 206, 412, 416].includes(status)) throw this.#changed(isSame && status === 200);
      throw this.#failure(answer);
    }, signal);
  }

  /** The whole file from its start, in chunks. `restart` is called before the file begins again. */
  whole(
    etag: string | undefined,
    write: (chunk: Uint8Array) => void,
    restart: () => void,
    signal?: AbortSignal,
  ): Promise<void> {
    return this.#withTries(async () => {
      restart();
      const answer = await this.#ask({}, signal);
      if (answer.status !== 200 || !this.#isSame(etag, answer)) {
        await dropBody(answer);
        throw answer.status === 200 ? this.#changed(false) : this.#failure(answer);
      }
      this.#assertPlain(answer);
      await readWhole(answer, write);
    }, signal);
  }

  async #ask(
    headers: Readonly<Record<string, string>>,
    signal?: AbortSignal,
  ): Promise<RemoteResponse> {
    const { url, token, dispatcher } = this.#options;
    const direct = this.#direct;
    const query = direct === undefined ? { url, ...(token && { token }) } : { url: direct };
    const answer = await requestRemoteFile({ ...query, headers }, dispatcher, signal);
    if (direct === undefined) {
      if (answer.url !== new URL(url).href) this.#direct = answer.url;
    } else if (answer.status >= 400 && answer.status < 500 && answer.status !== 416) {
      // An address from a redirect is valid for a while only.
      this.#direct = undefined;
      await dropBody(answer);
      return this.#ask(headers, signal);
    }
    return answer;
  }

  #withTries<T>(action: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return withTries(this.#options.path, this.#options.context, action, signal);
  }

  #tagOf(answer: RemoteResponse): string | undefined {
    if (this.#options.tagOf) return this.#options.tagOf(answer);
    return headerValue(answer.headers.etag) ?? headerValue(answer.headers["last-modified"]);
  }

  /** If a server does not identify the content, sizes and checksums must do. */
  #isSame(etag: string | undefined, answer: RemoteResponse): boolean {
    const now = this.#tagOf(answer);
    return etag === undefined || now === undefined || now === etag;
  }

  #assertPlain({ headers }: RemoteResponse): void {
    const coding = headerValue(headers["content-encoding"]) ?? "identity";
    const { path } = this.#options;
    if (coding === "identity" || /\.(gz|br|zst|lz4)(\?|$)/i.test(path)) return;
    throw new SluiceError("INPUT_UNREADABLE", `the server sends it as ${coding}, unasked`, {
      file: path,
      hint: "let the server give the file as it is, or fetch it by hand",
    });
  }

  #failure(answer: RemoteResponse): Error {
    const { path, context, token } = this.#options;
    const { status, isFirstHost } = answer;
    const isRefused = isFirstHost && (status === 401 || status === 403);
    const who = token === undefined ? "this address without credentials" : "it to this token";
    const hint = `the server does not give ${who}: check who may read it`;
    return failureOf(answer, path, context, isRefused ? { hint } : {});
  }

  #changed(lostRanges: boolean): SluiceError {
    const file = this.#options.path;
    const detail = lostRanges
      ? "the server gave ranges of it, and does so no longer"
      : "the server has another content now";
    return new SluiceError("INPUT_CHANGED", detail, { file });
  }
}

/** A weak ETag cannot be a condition of a range request; a date can. */
function isStrong(etag: string): boolean {
  return etag.startsWith('"') || /^[A-Z][a-z]{2}, \d\d /.test(etag);
}

async function readWhole(
  answer: RemoteResponse,
  onChunk: (chunk: Uint8Array) => void,
): Promise<void> {
  const length = headerValue(answer.headers["content-length"]);
  let bytes = 0;
  await readBody(answer, (chunk) => {
    bytes += chunk.length;
    onChunk(chunk);
  });
  if (length === undefined || Number(length) === bytes) return;
  throw new Interrupted(`ended after ${bytes} of ${length} bytes`);
}

async function bytesOf(answer: RemoteResponse, length: number): Promise<Uint8Array> {
  const data = Buffer.allocUnsafe(length);
  let filled = 0;
  await readBody(answer, (chunk) => {
    if (filled + chunk.length > length) throw new Interrupted("more bytes came than were asked");
    data.set(chunk, filled);
    filled += chunk.length;
  });
  if (filled < length) throw new Interrupted(`ended after ${filled} of ${length} bytes`);
  return data;
}
