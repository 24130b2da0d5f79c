import type { Storage } from "../../data/storage/storage.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { readLines } from "../../run/directory/lines.ts";

/** OpenAI's codes of rows that were never sent, and the words for them. */
const unsent: Readonly<Record<string, string>> = {
  batch_expired: "This request could not be executed before the completion window expired.",
  batch_cancelled: "This request was not executed, because the batch was cancelled.",
};

/** The status of the server that refuses such rows; it has no other use here. */
export const unsentStatus = 410;

/** A line of a failed row, as the run writes it. */
interface FailedLine {
  id: string;
  custom_id: string;
  response: { status_code: number; request_id: string; body: { error: JsonObject } };
  error: { code: string; message: string };
}

/**
 * A failed row in OpenAI's form. A row that the model refused has the response and no `error`; a
 * row that was never sent has an `error` and no response.
 *
 * @param line as the run wrote it.
 */
export function errorLine(line: string): string {
  const { error, response, ...own } = JSON.parse(line) as FailedLine;
  const [, status, said = ""] = /status (\d{3}): (.*)$/s.exec(error.message) ?? [];
  const [, words, code] = /^(.*?) \((\w+)\)$/s.exec(said) ?? [];
  // A run that gave the row up has Sluice's own name of the error.
  const givenUp = error.code === "batch_canceled" ? "batch_cancelled" : error.code;
  const refused = Number(status) === unsentStatus ? code : givenUp;
  if (refused !== undefined && Object.hasOwn(unsent, refused)) {
    const { [refused]: message } = unsent;
    return JSON.stringify({ ...own, response: null, error: { code: refused, message } });
  }
  const given = response.body.error;
  const refusal = {
    ...given,
    message: words ?? (said === "" ? given.message! : said),
    param: fieldIn(error.message),
    code: code ?? error.code,
  };
  const statusCode = status === undefined ? response.status_code : Number(status);
  return JSON.stringify({
    ...own,
    response: { ...response, status_code: statusCode, body: { error: refusal } },
    error: null,
  });
}

/** The member of the body that a message names. */
function fieldIn(message: string): string | null {
  return /\(field (?:body\.)?([^)\s]+)\)/.exec(message)?.[1] ?? null;
}

/** Writes the lines of all failed rows in OpenAI's form. */
export async function writeErrorLines(storage: Storage, from: string, to: string): Promise<void> {
  const writer = await storage.writer(to);
  try {
    for await (const line of readLines(storage, from)) {
      await writer.write(Buffer.from(`${errorLine(line)}\n`));
    }
  } catch (error) {
    await writer.abort();
    throw error;
  }
  await writer.close();
}
