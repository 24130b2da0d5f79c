/** A way of writing delimited text. */
export interface Dialect {
  /** Name of the format. */
  name: string;
  extensions: readonly string[];
  /** The ASCII character between fields. */
  delimiter: string;
}

/** Commas between fields (RFC 4180). */
export const csvDialect: Dialect = { name: "csv", extensions: [".csv"], delimiter: "," };

/** Tabs between fields, quotes as in CSV. */
export const tsvDialect: Dialect = { name: "tsv", extensions: [".tsv"], delimiter: "\t" };
