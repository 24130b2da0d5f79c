/**
 * The GPUs of one replica of a stage: whole ones in turn, or parts of one that several share.
 *
 * @param devices those of the worker; where replicas need more, they begin with the first again.
 * @param each GPUs that a replica takes, as 2 or 0.5.
 * @example
 * devicesOfReplica(["0", "1"], 0.5, 3); // ["1"]
 */
export function devicesOfReplica(
  devices: readonly string[],
  each: number,
  replica: number,
): string[] {
  // Ten times 0.1 is a little less than 1.
  const first = Math.floor(replica * each + 1e-9);
  const last = Math.max(first + 1, Math.ceil((replica + 1) * each - 1e-9));
  const chosen = Array.from(
    { length: last - first },
    (_, at) => devices[(first + at) % devices.length]!,
  );
  return [...new Set(chosen)];
}
