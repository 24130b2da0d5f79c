import { exactText } from "../foundation/exact-json.ts";
import { plainJson, type TypedJson } from "../foundation/typed-json.ts";

/** Prints rows as JSON to stdout, one row a line. */
export function printRows(rows: readonly object[]): void {
  for (const row of rows) {
    process.stdout.write(`${exactText(plainJson(row as { [key: string]: TypedJson }))}\n`);
  }
}

export function printNotice(message: string): void {
  process.stderr.write(`sluice: ${message}\n`);
}
