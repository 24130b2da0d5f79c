import type { FileMetaData, SchemaElement, SchemaTree } from "hyparquet";
import { parquetSchema } from "hyparquet";

/** A node of the file's schema, and the node that the library gets in its place. */
export interface SchemaNode {
  element: SchemaElement;
  raw: SchemaTree;
  children: SchemaNode[];
}

/**
 * The file's schema, and one that has no types but text and lists. With the second schema, the
 * library returns values as they are stored; its own dates, decimals and maps lose digits and
 * entries.
 */
export function schemaNodes(metadata: Pick<FileMetaData, "schema">): SchemaNode {
  const schema = metadata.schema.map(rawElement);
  const tree = parquetSchema(metadata);
  for (const variant of variantsIn(tree)) {
    // The library decodes a VARIANT itself, from everything below it in the schema.
    const at = metadata.schema.indexOf(variant.element);
    for (let below = at; below < at + variant.count; below++) {
      schema[below] = metadata.schema[below]!;
    }
  }
  return paired(tree, parquetSchema({ schema }));
}

function paired(tree: SchemaTree, raw: SchemaTree): SchemaNode {
  const children = tree.children.map((child, at) => paired(child, raw.children[at]!));
  return { element: tree.element, raw, children };
}

function variantsIn(tree: SchemaTree): SchemaTree[] {
  if (tree.element.logical_type?.type === "VARIANT") return [tree];
  return tree.children.flatMap(variantsIn);
}

function rawElement(element: SchemaElement): SchemaElement {
  const { converted_type: _, logical_type: __, ...raw } = element;
  if (element.num_children) return isList(element) ? { ...raw, converted_type: "LIST" } : raw;
  return isText(element) ? { ...raw, converted_type: "UTF8" } : raw;
}

export function isList({ converted_type, logical_type }: SchemaElement): boolean {
  return converted_type === "LIST" || logical_type?.type === "LIST";
}

export function isMap({ converted_type, logical_type }: SchemaElement): boolean {
  return (
    converted_type === "MAP" || converted_type === "MAP_KEY_VALUE" || logical_type?.type === "MAP"
  );
}

/** Whether the bytes of a value are UTF-8 text. */
function isText({
  type,
  converted_type: converted,
  logical_type: logical,
}: SchemaElement): boolean {
  if (type !== "BYTE_ARRAY") return false;
  const names = ["UTF8", "STRING", "ENUM", "JSON"];
  return names.includes(converted ?? "") || names.includes(logical?.type ?? "");
}
