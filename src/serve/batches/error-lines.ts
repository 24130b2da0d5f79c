import type { Storage } from "../../data/storage/storage.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { readLines } from "../../run/directory/lines.ts";
import { HashedFile, writeWhole } from "../../run/output/hashed-file.ts";

/** What OpenAI says of rows that were never sent, by the code that their run gave them. */
const unsent: Readonly<Record<string, { code: string; message: string }>> = {
  batch_expired: {
    code: "batch_expired",
    message: "This request could not be executed before the completion window expired.",
  },
  batch_canceled: {
    code: "batch_cancelled",
    message: "This request was not executed, because the batch was cancelled.",
  },
};

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
  const given = unsent[error.code];
  return JSON.stringify({ ...own, response: given ? null : response, error: given ?? null });
}

/** Writes the lines of all failed rows in OpenAI's form. */
export async function writeErrorLines(storage: Storage, from: string, to: string): Promise<void> {
  await writeWhole(await HashedFile.open(storage, to), async (file) => {
    for await (const line of readLines(storage, from)) await file.add(errorLine(line));
  });
}
