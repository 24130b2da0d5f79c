import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { wrong } from "./failure.ts";

/** What of a list a client asks for. */
export interface PageQuery {
  limit?: string;
  /** The id of the last object of the page before. */
  after?: string;
  order?: string;
}

export interface PageLimits {
  /** Objects on a page if the client does not say. */
  usual: number;
  most: number;
}

/**
 * A page of a list in OpenAI's form. Ids sort by creation, so a page may follow an object that is
 * gone meanwhile.
 *
 * @param objects the oldest first.
 */
export function pageOf(
  objects: readonly { id: string }[],
  { limit, after, order = "desc" }: PageQuery,
  { usual, most }: PageLimits,
): JsonObject {
  const size = limit === undefined ? usual : Number(limit);
  if (!Number.isInteger(size) || size < 1 || size > most) {
    throw wrong("limit", `a whole number from 1 to ${most}`);
  }
  if (order !== "asc" && order !== "desc") throw wrong("order", "asc or desc");
  const ordered = order === "asc" ? objects : objects.toReversed();
  const rest =
    after === undefined
      ? ordered
      : ordered.filter(({ id }) => (order === "asc" ? id > after : id < after));
  const data = rest.slice(0, size);
  return {
    object: "list",
    data: data as unknown as Json[],
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: rest.length > data.length,
  };
}

const leastLifeSeconds = 3600;
const mostLifeSeconds = 2_592_000;

/** How long a file stays, from `expires_after` and the like; undefined if it says nothing. */
export function lifeSeconds(field: string, given: Json | undefined): number | undefined {
  if (given === undefined || given === null) return undefined;
  if (!isJsonObject(given)) throw wrong(field, "an object with anchor and seconds");
  if (given.anchor !== "created_at") throw wrong(`${field}.anchor`, "created_at");
  const seconds = Number(given.seconds);
  if (Number.isInteger(seconds) && seconds >= leastLifeSeconds && seconds <= mostLifeSeconds) {
    return seconds;
  }
  throw wrong(`${field}.seconds`, `a whole number from ${leastLifeSeconds} to ${mostLifeSeconds}`);
}
