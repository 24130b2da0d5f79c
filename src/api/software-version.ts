import { readFileSync } from "node:fs";
import { packageFile } from "../entry.ts";

/** Version of this package. */
export function softwareVersion(): string {
  const manifest = readFileSync(packageFile("package.json"), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}
