/** One way of writing delimited text. */
export interface Dialect {
  /** Name of the format. */
  name: string;
  extensions: readonly string[];
  /** One ASCII character between fields. */
  delimiter: string;
}

/** Fields between commas (RFC 4180). */
export const csvDialect: Dialect = { name: "csv", extensions: [".csv"], delimiter: "," };

/** Fields between tabs, quoted as in CSV. */
export const tsvDialect: Dialect = { name: "tsv", extensions: [".tsv"], delimiter: "\t" };
