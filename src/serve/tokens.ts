import { timingSafeEqual } from "node:crypto";
import { SluiceError } from "../foundation/errors.ts";
import { sha256Hex } from "../foundation/hashing.ts";
import type { Priority } from "./admission.ts";
import type { Scope, ServeOptions } from "./options.ts";

/** Who sends a request. */
export interface Caller {
  /** Name of the token, or the address of an anonymous caller. */
  name: string;
  weight: number;
  priority: Priority;
}

/** Bearer tokens, of which only digests are known. */
export class Tokens {
  readonly #byDigest: ReadonlyMap<string, ServeOptions["tokens"][number]>;

  constructor(tokens: ServeOptions["tokens"]) {
    this.#byDigest = new Map(tokens.map((token) => [token.sha256, token]));
  }

  /**
   * The caller of a request, if it may do what needs the scope; without tokens everybody may.
   *
   * @param authorization the header of this name.
   * @param address of the caller.
   * @throws SluiceError `TOKEN_INVALID`, `TOKEN_FORBIDDEN`.
   */
  callerOf(authorization: string | undefined, scope: Scope, address: string): Caller {
    if (this.#byDigest.size === 0) return { name: address, weight: 1, priority: "online" };
    const given = bearerOf(authorization);
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

function bearerOf(authorization: string | undefined): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1];
}
