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
  // A run that gave the row up has Sluice's own name of the error.
  const givenUp = error.code === "batch_canceled" ? "batch_cancelled" : error.code;
  const code = response.status_code === unsentStatus ? String(response.body.error.code) : givenUp;
  if (!Object.hasOwn(unsent, code)) return JSON.stringify({ ...own, response, error: null });
  return JSON.stringify({ ...own, response: null, error: { code, message: unsent[code] } });
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
