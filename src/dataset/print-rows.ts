/** Prints rows as JSON, a line each, for the program that asks for it. */
export function printRows(rows: readonly object[]): void {
  for (const row of rows) process.stdout.write(`${JSON.stringify(row)}\n`);
}
