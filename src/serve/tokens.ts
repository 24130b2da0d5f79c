import { timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { SluiceError } from "../foundation/errors.ts";
import { sha256Hex } from "../foundation/hashing.ts";
import type { Priority } from "./model-queue.ts";
import type { Scope, ServeOptions } from "./options.ts";

export interface Caller {
  /** Name of the token, or the address of an anonymous caller. */
  name: string;
  weight: number;
  priority: Priority;
}

/** Bearer tokens, of which only digests are known. */
export class Tokens {
  readonly #byDigest: ReadonlyMap<string, ServeOptions["tokens"][number]>;
  readonly #isOpen: boolean;

  constructor({ tokens, insecure }: Pick<ServeOptions, "tokens" | "insecure">) {
    this.#isOpen = insecure;
    this.#byDigest = new Map(tokens.map((token) => [token.sha256, token]));
  }

  /**
   * The caller of a request, if it may do what needs the scope; without tokens everybody may,
   * except pages of other sites unless the server is open to all.
   *
   * @param address of the caller.
   * @throws SluiceError `TOKEN_INVALID`, `TOKEN_FORBIDDEN`, `ORIGIN_REFUSED`.
   */
  callerOf(headers: IncomingHttpHeaders, scope: Scope, address: string): Caller {
    if (this.#byDigest.size === 0) {
      if (!this.#isOpen) assertOwnPage(headers);
      return { name: address, weight: 1, priority: "online" };
    }
    const given = bearerOf(headers.authorization);
    // Digests are compared, so that the time of a comparison tells nothing about a token.
    const token = given === undefined ? undefined : this.#byDigest.get(sha256Hex(given));
    if (token === undefined) throw new SluiceError("TOKEN_INVALID");
    if (!token.scopes.includes(scope))
      throw new SluiceError("TOKEN_FORBIDDEN", `it lacks ${scope}`);
    return { name: token.name, weight: token.weight, priority: "online" };
  }
}

/** The workers of a server's own batches, which share one token. */
export class BatchToken {
  readonly #authorization: Buffer;

  constructor(token: string) {
    this.#authorization = Buffer.from(`Bearer ${token}`);
  }

  /** @throws SluiceError `TOKEN_INVALID` for everybody else. */
  callerOf(authorization = ""): Caller {
    const given = Buffer.from(authorization);
    const isAsLong = given.length === this.#authorization.length;
    if (isAsLong && timingSafeEqual(given, this.#authorization)) return batchCaller;
    throw new SluiceError("TOKEN_INVALID");
  }
}

const batchCaller: Caller = { name: "batch", weight: 1, priority: "batch" };

/** Names that lead to this machine or its network, and that nobody on the internet can own. */
const localName = String.raw`([\w-]+|[\w.-]+\.(localhost|local|internal))`;
const ownHost = new RegExp(String.raw`^(${localName}|[\d.]+|\[[\da-f:.]+\])(:\d+)?$`, "i");
/** Pages of this machine, and what is not a web page, such as an extension of a browser. */
const ownOrigin = new RegExp(
  String.raw`^(https?://(${localName}|127[\d.]+|\[::1\])(:\d+)?|(?!https?:)[\w-]+://.*)$`,
  "i",
);

/**
 * A browser lets any page send requests to this machine, with the page's origin; and a page whose
 * own name leads here (DNS rebinding) may read the answers as well.
 *
 * @throws SluiceError `ORIGIN_REFUSED`.
 */
function assertOwnPage({ host, origin }: IncomingHttpHeaders): void {
  if (origin !== undefined && !ownOrigin.test(origin)) {
    throw new SluiceError("ORIGIN_REFUSED", `the request comes from ${origin}`);
  }
  if (host !== undefined && !ownHost.test(host)) {
    throw new SluiceError("ORIGIN_REFUSED", `the request is for ${host}`);
  }
}

function bearerOf(authorization: string | undefined): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1];
}
