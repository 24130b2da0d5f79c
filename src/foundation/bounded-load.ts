/** For a prefix's sake, a server may have this many times its share of all requests in flight. */
export const loadBound = 1.25;

/**
 * Requests in flight from which a server is passed over, although it has the request's prefix.
 *
 * Source: Mirrokni, Thorup, Zadimoghaddam, "Consistent hashing with bounded loads", SODA 2018.
 *
 * @param weight of the server, and of all servers.
 * @param inFlight requests at all servers, without the next one.
 */
export function boundOf(weight: number, allWeights: number, inFlight: number): number {
  return Math.ceil((loadBound * (inFlight + 1) * weight) / allWeights);
}
