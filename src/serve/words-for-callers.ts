import type { ErrorCode } from "../foundation/error-table.ts";

const refused =
  "the server behind this model refuses what this server sends; the log of this server says why";
const failed = "the server behind this model failed";

/** Where the reason, such as an address or a key, is for the operator alone; on every wire. */
export const wordsForCallers: Partial<Record<ErrorCode, string>> = {
  AUTHENTICATION_FAILED: refused,
  ENDPOINT_UNUSABLE: refused,
  ENDPOINT_PATH_UNKNOWN: refused,
  MODEL_UNKNOWN: refused,
  SERVER_ERROR: failed,
  CONNECTION_LOST: failed,
  RESPONSE_MALFORMED: failed,
  ANSWER_EMPTY: failed,
  TIMEOUT: "the server behind this model took too long",
  ENDPOINT_DOWN: "the server behind this model takes no requests now",
};
