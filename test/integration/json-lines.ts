import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "../../src/foundation/json.ts";

/** The lines of a folder's JSON Lines, file by file; none where there is no such folder. */
export function jsonLinesIn(directory: string): JsonObject[] {
  if (!existsSync(directory)) return [];
  const files = readdirSync(directory).filter((name) => name.endsWith(".jsonl"));
  const texts = files.sort().map((name) => readFileSync(join(directory, name), "utf8"));
  const lines = texts.flatMap((text) => text.split("\n")).filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line) as JsonObject);
}
