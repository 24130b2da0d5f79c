import { exactText } from "../foundation/exact-json.ts";
import { plainJson, type TypedJson } from "../foundation/typed-json.ts";

/** Prints rows as JSON, a line each, for the program that asks for it. */
export function printRows(rows: readonly object[]): void {
  for (const row of rows) {
    process.stdout.write(`${exactText(plainJson(row as { [key: string]: TypedJson }))}\n`);
  }
}

/** Tells the person at a program what its author did not ask to hear. */
export function printNotice(message: string): void {
  process.stderr.write(`sluice: ${message}\n`);
}
