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
  readonly #batchDigest: string;

  /** @param batchToken that of the workers of the server's own batches. */
  constructor(tokens: ServeOptions["tokens"], batchToken: string) {
    this.#byDigest = new Map(tokens.map((token) => [token.sha256, token]));
    this.#batchDigest = sha256Hex(batchToken);
  }

  /**
   * The caller of a request, if it may do what needs the scope; without tokens everybody may.
   *
   * @param authorization the header of this name.
   * @param address of the caller.
   * @throws SluiceError `TOKEN_INVALID`, `TOKEN_FORBIDDEN`.
   */
  callerOf(authorization: string | undefined, scope: Scope, address: string): Caller {
    const [, given] = /^Bearer +(\S+) *$/i.exec(authorization ?? "") ?? [];
    // Digests are compared, so that the time of a comparison tells nothing about a token.
    const digest = given === undefined ? undefined : sha256Hex(given);
    if (digest === this.#batchDigest && scope === "infer") return batchCaller;
    if (this.#byDigest.size === 0) return { name: address, weight: 1, priority: "online" };
    const token = digest === undefined ? undefined : this.#byDigest.get(digest);
    if (token === undefined) throw new SluiceError("TOKEN_INVALID");
    if (!token.scopes.includes(scope))
      throw new SluiceError("TOKEN_FORBIDDEN", `it lacks ${scope}`);
    return { name: token.name, weight: token.weight, priority: "online" };
  }
}

const batchCaller: Caller = { name: "batch", weight: 1, priority: "batch" };
