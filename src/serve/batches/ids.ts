import type { Clock } from "../../foundation/clock.ts";
import { randomUuid } from "../../foundation/ids.ts";
import type { Random } from "../../foundation/random.ts";

type Prefix = "file-" | "batch_";

/**
 * A new id that sorts by the time it was made, so that a page of a list can begin after an object
 * that was deleted.
 */
export function newId(prefix: Prefix, clock: Clock, random: Random): string {
  const time = Math.floor(clock.now()).toString(16).padStart(12, "0");
  return prefix + time + randomUuid(random).replaceAll("-", "").slice(12);
}

/** True for an id of `newId`. Ids become parts of paths, so nothing else may. */
export function isId(prefix: Prefix, text: string): boolean {
  return text.startsWith(prefix) && /^[0-9a-f]{32}$/.test(text.slice(prefix.length));
}
