import { boundOf } from "../../../foundation/bounded-load.ts";
import { mix32 } from "../../../foundation/random.ts";

/** The facts about one endpoint for routing. */
export interface RoutedEndpoint {
  /** Follows from its address, so that a key means the same endpoint in every process. */
  readonly seed: number;
  /** Its share of the requests, relative to the others'. */
  readonly weight: number;
  /** Its requests in flight. */
  readonly inFlight: number;
}

/**
 * The endpoint with the lowest load for its weight, including one more request; the first of
 * equals. Undefined if there is none.
 */
export function leastLoaded<E extends RoutedEndpoint>(endpoints: Iterable<E>): E | undefined {
  let least: E | undefined;
  let leastLoad = Number.POSITIVE_INFINITY;
  for (const endpoint of endpoints) {
    const load = (endpoint.inFlight + 1) / endpoint.weight;
    if (load >= leastLoad) continue;
    least = endpoint;
    leastLoad = load;
  }
  return least;
}

/**
 * The endpoint with the prefix of `key`: the first in the key's own order of the endpoints within
 * its bound of the load. Keys are distributed by weight, and if an endpoint comes or goes, only its
 * own keys move.
 *
 * Source: Thaler, Ravishankar, "Using name-based mappings to increase hit rates" (rendezvous
 * hashing), IEEE/ACM Transactions on Networking 1998.
 */
export function holderOf<E extends RoutedEndpoint>(
  key: number,
  endpoints: readonly E[],
): E | undefined {
  const inFlight = endpoints.reduce((sum, endpoint) => sum + endpoint.inFlight, 0);
  const weight = endpoints.reduce((sum, endpoint) => sum + endpoint.weight, 0);
  let holder: E | undefined;
  let highest = Number.NEGATIVE_INFINITY;
  for (const endpoint of endpoints) {
    if (endpoint.inFlight >= boundOf(endpoint.weight, weight, inFlight)) continue;
    const score = rendezvousScore(key, endpoint);
    if (score <= highest) continue;
    holder = endpoint;
    highest = score;
  }
  return holder;
}

/** The endpoint with the highest score has the key, in proportion to the weights. */
function rendezvousScore(key: number, { seed, weight }: RoutedEndpoint): number {
  const drawn = (mix32(mix32(key) + seed) + 0.5) / 0x1_0000_0000;
  return -weight / Math.log(drawn);
}
