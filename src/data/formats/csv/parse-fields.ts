type Papa = typeof import("papaparse");

let loading: Promise<Papa> | undefined;

/** Loads the library once, when the first delimited file is read. */
export async function loadPapa(): Promise<Papa> {
  loading ??= import("papaparse").then((module) => module.default);
  return await loading;
}

/**
 * The fields of several records, or undefined where the library finds fault with any.
 *
 * @param text records, `newline` between them and none behind the last.
 */
export function parseRecords(
  papa: Papa,
  text: string,
  delimiter: string,
  newline: "\n" | "\r\n",
): string[][] | undefined {
  // `papa.parse` would take a byte order mark from a text that begins with one.
  const parser = new papa.Parser({ delimiter, newline });
  const { data, errors } = parser.parse(text, 0, false) as {
    data: string[][];
    errors: readonly unknown[];
  };
  return errors.length > 0 ? undefined : data;
}

/** The fields of one record, or undefined where the library finds fault with it. */
export async function parseFields(text: string, delimiter: string): Promise<string[] | undefined> {
  const records = parseRecords(await loadPapa(), text, delimiter, "\n");
  return records?.length === 1 ? records[0] : undefined;
}
