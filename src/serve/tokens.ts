import { sha256Hex } from "../foundation/hashing.ts";
import type { Scope, ServeOptions } from "./options.ts";

/** Who sends a request. */
export interface Caller {
  /** Name of the token, or the address of an anonymous caller. */
  name: string;
  weight: number;
}

/** Bearer tokens, of which only digests are known. */
export class Tokens {
  readonly #byDigest: ReadonlyMap<string, ServeOptions["tokens"][number]>;

  constructor(tokens: ServeOptions["tokens"]) {
    this.#byDigest = new Map(tokens.map((token) => [token.sha256, token]));
  }

  /** False if everybody may do everything. */
  get areNeeded(): boolean {
    return this.#byDigest.size > 0;
  }

  /**
   * The caller of an `Authorization` header, if its token may be used for this. Digests are
   * compared, so that the time of a comparison tells nothing about a token.
   */
  callerOf(authorization: string | undefined, scope: Scope): Caller | "unknown" | "forbidden" {
    const [, given] = /^Bearer +(\S+) *$/i.exec(authorization ?? "") ?? [];
    const token = given === undefined ? undefined : this.#byDigest.get(sha256Hex(given));
    if (token === undefined) return "unknown";
    return token.scopes.includes(scope) ? token : "forbidden";
  }
}
