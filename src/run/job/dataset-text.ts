import type { Json, JsonObject } from "../../foundation/json.ts";
import { readPairs } from "./pairs.ts";
import { nodesAt } from "./schema-tree.ts";
import { scalarFromText } from "./value-text.ts";

/**
 * What `dataset` is given as, with texts such as `name=Sample,path=rows.jsonl,type=alpaca` read. A
 * text that is none stays, and the schema refuses it.
 */
export function readDatasets(value: Json): Json {
  if (typeof value === "string") return readDataset(value) ?? value;
  if (!Array.isArray(value)) return value;
  return value.map((entry) => (typeof entry === "string" ? (readDataset(entry) ?? entry) : entry));
}

function readDataset(text: string): JsonObject | undefined {
  const pairs = readPairs(text) ?? [];
  const entry: JsonObject = {};
  for (const { name, text: given, isQuoted } of pairs) {
    if (entry[name] !== undefined) return undefined;
    entry[name] = isQuoted ? given : scalarFromText(given, nodesAt(["dataset", "0", name]));
  }
  return pairs.length === 0 ? undefined : entry;
}
