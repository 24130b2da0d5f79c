import { isJsonObject, type Json, type JsonObject } from "../foundation/json.ts";

/** Under these names, rows and results of an archive's handler carry what belongs to HTTP. */
export const requestKey = "sluice:request";
export const replyKey = "sluice:reply";

/** What a handler's row tells of its request. */
export interface RequestFacts {
  id: string;
  headers: Readonly<Record<string, string>>;
}

/** What a handler says of a reply. */
export interface ReplyFacts {
  status: number;
  reason: string;
  contentType?: string;
  headers: [name: string, value: string][];
}

/** A row for a handler of an archive, with its request. */
export function requestRow(row: JsonObject, request: RequestFacts): JsonObject {
  return { row, [requestKey]: { ...request } };
}

/** What a handler of an archive said of a reply, and its result; undefined if it said nothing. */
export function replyOf(value: Json | undefined): { facts: ReplyFacts; result: Json } | undefined {
  if (!isJsonObject(value) || !Object.hasOwn(value, replyKey)) return undefined;
  return { facts: value[replyKey] as unknown as ReplyFacts, result: value.result ?? null };
}
