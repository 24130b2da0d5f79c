import { readFileSync } from "node:fs";

/** Version of this package. */
export function softwareVersion(): string {
  const file = new URL("../../package.json", import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}
