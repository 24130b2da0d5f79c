import type { FileMetaData } from "hyparquet";
import { type ExactJson, exactText } from "../../../foundation/exact-json.ts";
import type { RowColumn } from "../table-rows.ts";
import { unreadable } from "../unreadable.ts";
import { listWriter, nullSafe, type Part, plainValue, type ValueWriter } from "../value-writers.ts";
import { leafWriter } from "./leaf-values.ts";
import { isList, isMap, type SchemaNode, schemaNodes } from "./raw-schema.ts";

/** A column of a file, with its place in the schema. */
export interface TableColumn extends RowColumn {
  node: SchemaNode;
}

/**
 * The columns of a file, in the file's order.
 *
 * @throws SluiceError `INPUT_UNREADABLE` if two have the same name.
 */
export function tableOf(metadata: FileMetaData, file: string): TableColumn[] {
  const names = new Set<string>();
  return schemaNodes(metadata).children.map((node) => {
    const { name } = node.element;
    if (names.has(name)) throw unreadable(file, `two columns are named ${name}`);
    names.add(name);
    const { type, nullable, text } = partOf(node);
    // An interval is stored as bytes, not as its text.
    const json = node.element.converted_type === "INTERVAL" ? undefined : plainValue(type);
    const prefix = `${JSON.stringify(name)}:`;
    return { column: { name, type, nullable }, node, prefix, text, ...(json && { json }) };
  });
}

function partOf(node: SchemaNode): Part {
  const { element } = node;
  const writer = element.num_children ? groupWriter(node) : leafWriter(element);
  if (element.repetition_type !== "REPEATED") {
    return { ...nullSafe(writer), nullable: element.repetition_type === "OPTIONAL" };
  }
  const list = listWriter({ ...nullSafe(writer), nullable: false });
  return { ...nullSafe(list), nullable: false };
}

function groupWriter(node: SchemaNode): ValueWriter {
  const { element, children } = node;
  if (element.logical_type?.type === "VARIANT") {
    return { type: { kind: "json" }, text: (value) => exactText(plainOf(value)) };
  }
  const repeated = children[0];
  const isWrapper = children.length === 1 && repeated?.element.repetition_type === "REPEATED";
  if (isWrapper && isList(element)) return wrappedList(repeated);
  if (isWrapper && isMap(element) && repeated.children.length === 2) return mapWriter(repeated);
  return structWriter(children);
}

/** Its elements are the content of its repeated group, or in older files the group itself. */
function wrappedList(repeated: SchemaNode): ValueWriter {
  const { children, element } = repeated;
  if (children.length === 1) return listWriter(partOf(children[0]!));
  if (children.length === 0) {
    return listWriter({ ...nullSafe(leafWriter(element)), nullable: false });
  }
  const list = listWriter({ ...nullSafe(structWriter(children)), nullable: false });
  // The library takes it for a struct with one repeated field.
  return { ...list, text: (value) => list.text(fieldOf(value, element.name)) };
}

function structWriter(children: readonly SchemaNode[]): ValueWriter {
  const fields = children.map((child) => {
    const { type, nullable, text } = partOf(child);
    const { name } = child.element;
    return { name, prefix: `${JSON.stringify(name)}:`, type, nullable, text };
  });
  return {
    type: {
      kind: "struct",
      fields: fields.map(({ name, type, nullable }) => ({ name, type, nullable })),
    },
    text(value) {
      const texts = fields.map(({ name, prefix, text }) => prefix + text(fieldOf(value, name)));
      return `{${texts.join(",")}}`;
    },
  };
}

function fieldOf(value: unknown, name: string): unknown {
  return (value as Record<string, unknown>)[name];
}

/** The entries of a map, in the form that the library gives without a map type in the schema. */
function mapWriter(entries: SchemaNode): ValueWriter {
  const [keyNode, valueNode] = entries.children as [SchemaNode, SchemaNode];
  const key = partOf(keyNode);
  const value = partOf(valueNode);
  const listOf = (map: unknown) => fieldOf(map, entries.element.name) as unknown[];
  const [keyName, valueName] = [keyNode.element.name, valueNode.element.name];
  const isObject = key.type.kind === "string";
  const entryText = (entry: unknown) => {
    const [keyText, valueText] = [
      key.text(fieldOf(entry, keyName)),
      value.text(fieldOf(entry, valueName)),
    ];
    return isObject ? `${keyText}:${valueText}` : `{"key":${keyText},"value":${valueText}}`;
  };
  return {
    type: { kind: "map", key: key.type, value: { type: value.type, nullable: value.nullable } },
    text(map) {
      const texts = Array.from(listOf(map) ?? [], entryText).join(",");
      return isObject ? `{${texts}}` : `[${texts}]`;
    },
  };
}

/** The value of a VARIANT as the library decoded it. */
function plainOf(value: unknown): ExactJson {
  if (value === undefined) return null;
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (Array.isArray(value)) return value.map(plainOf);
  if (typeof value !== "object" || value === null) return value as ExactJson;
  const members = Object.entries(value).map(([name, member]) => [name, plainOf(member)]);
  return Object.fromEntries(members) as ExactJson;
}
