type Papa = typeof import("papaparse");

let loading: Promise<Papa> | undefined;

/** Loads the library with the first delimited file. */
export async function loadPapa(): Promise<Papa> {
  loading ??= import("papaparse").then((module) => module.default);
  return await loading;
}

/**
 * The fields of several records, or undefined if the library objects to any of them.
 *
 * @param text records, joined by `newline`, with none at the end.
 */
export function parseRecords(
  papa: Papa,
  text: string,
  delimiter: string,
  newline: "\n" | "\r\n",
): string[][] | undefined {
  // `papa.parse` would remove a byte order mark from the text.
  const parser = new papa.Parser({ delimiter, newline });
  const { data, errors } = parser.parse(text, 0, false) as {
    data: string[][];
    errors: readonly unknown[];
  };
  return errors.length > 0 ? undefined : data;
}

/** The fields of one record, or undefined if the library objects to it. */
export async function parseFields(text: string, delimiter: string): Promise<string[] | undefined> {
  const records = parseRecords(await loadPapa(), text, delimiter, "\n");
  return records?.length === 1 ? records[0] : undefined;
}
