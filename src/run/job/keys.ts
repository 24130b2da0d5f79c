import type { Json } from "../../foundation/json.ts";
import type { SettingKind } from "../../foundation/setting.ts";
import { formsOf, type SchemaNode, schemaTree, stepInto, typesOf } from "./schema-tree.ts";

/** One key of the job, for flags, environment names, help and docs. */
export interface JobKey {
  /**
   * Dotted, such as `generation.topP`; `NAME` is a name of the user's own, `N` an index of a list.
   */
  readonly path: string;
  /** Its values, for people: `whole number`, `text or object`, `chat | completion`. */
  readonly type: string;
  /** Its meaning; with the engines' names if only some know it, or if they differ. */
  readonly description: string;
  readonly default: Json | undefined;
  readonly kind: SettingKind;
  /** Engines with this key; empty = all. */
  readonly engines: readonly string[];
  /** Its variable; none below `NAME`, whose letter case a variable would lose, and below `N`. */
  readonly environment: string | undefined;
  readonly isSwitch: boolean;
  /** Its other names, also dotted: `generation.top_p`. */
  readonly otherNames: readonly string[];
}

/** The variable that sets a key: `model.maxInFlight` → `SLUICE_MODEL__MAX_IN_FLIGHT`. */
export function environmentName(path: string): string {
  const words = path.replaceAll(/([a-z0-9])([A-Z])/g, "$1_$2").toUpperCase();
  return `SLUICE_${words.replaceAll(".", "__")}`;
}

let keys: readonly JobKey[] | undefined;

interface FoundKey extends Omit<JobKey, "description"> {
  /** The engines of each description; empty = all. */
  meanings: ReadonlyMap<string, readonly string[]>;
}

export function jobKeys(): readonly JobKey[] {
  keys ??= keysOf(schemaTree());
  return keys;
}

/** Every key of a job's schema, in its order; the forms of a union are merged. */
export function keysOf(schema: SchemaNode): readonly JobKey[] {
  const found = new Map<string, FoundKey>();
  collect([schema], [], "operation", undefined, found);
  const engines = found.get("model.engine")?.engines.length ?? 0;
  return [...found.values()].map(({ meanings, ...key }) => ({
    ...key,
    description: described(meanings, engines),
  }));
}

export type NamedKey = Pick<JobKey, "path" | "isSwitch" | "otherNames">;

/**
 * The key with a name, dotted, its own or another; none below `NAME` and `N`, which have no flags.
 * Reads only the part of the schema that leads there.
 */
export function jobKeyNamed(name: string): NamedKey | undefined {
  const found = new Map<string, FoundKey>();
  collect([schemaTree()], [], "operation", undefined, found, name.split("."));
  return [...found.values()].find(({ path, otherNames }) => [path, ...otherNames].includes(name));
}

/** @param only the names to descend by, one for each level; empty = all. */
function collect(
  nodes: readonly SchemaNode[],
  path: readonly string[],
  inherited: SettingKind,
  engine: string | undefined,
  found: Map<string, FoundKey>,
  only?: readonly string[],
): void {
  const wanted = only?.[path.length];
  for (const node of nodes) {
    const kind = node.kind ?? inherited;
    if (path.length > 0) add(node, path, kind, engine, found);
    if (path.length === only?.length) continue;
    for (const form of formsOf(node)) {
      const owner = form.properties?.engine?.const;
      const below = typeof owner === "string" ? owner : engine;
      for (const [name, { otherNameOf, otherNames = [] }] of Object.entries(
        form.properties ?? {},
      )) {
        if (otherNameOf !== undefined) continue;
        if (wanted !== undefined && ![name, ...otherNames].includes(wanted)) continue;
        collect(stepInto(form, name), [...path, name], kind, below, found, only);
      }
      if (only) continue;
      // The elements of a list that may also be one object have that object's keys.
      const isAlsoObject = formsOf(node).some((other) => other.properties !== undefined);
      if (form.items?.properties && !isAlsoObject) {
        collect([form.items], [...path, "N"], kind, below, found);
      }
      if (typeof form.additionalProperties === "object") {
        collect([form.additionalProperties], [...path, "NAME"], kind, below, found);
      }
    }
  }
}

function described(meanings: FoundKey["meanings"], engineCount: number): string {
  const texts = [...meanings].map(([description, engines]) => {
    const isOfAll = engines.length === 0 || engines.length === engineCount;
    return isOfAll ? description : `${description} (engine ${engines.join(", ")})`.trim();
  });
  return texts.join("; ");
}

function add(
  node: SchemaNode,
  path: readonly string[],
  kind: SettingKind,
  engine: string | undefined,
  found: Map<string, FoundKey>,
): void {
  const dotted = path.join(".");
  const known = found.get(dotted);
  const separator = node.const === undefined ? " or " : " | ";
  const type = [known?.type, ...formsOf(node).map(typeText)].filter(Boolean).join(separator);
  const types = [...new Set(type.split(separator))].join(separator);
  const hasOneDefault = !known || JSON.stringify(known.default) === JSON.stringify(node.default);
  found.set(dotted, {
    path: dotted,
    type: types,
    meanings: withMeaning(known?.meanings, node.description, engine),
    default: hasOneDefault ? node.default : undefined,
    kind,
    engines: engine ? [...new Set([...(known?.engines ?? []), engine])] : [],
    environment: /\b(NAME|N)\b/.test(dotted) ? undefined : environmentName(dotted),
    isSwitch: types === "true or false",
    otherNames: (node.otherNames ?? []).map((name) => [...path.slice(0, -1), name].join(".")),
  });
}

/** If forms differ only by type, the first description counts. */
function withMeaning(
  known: FoundKey["meanings"] = new Map(),
  description = "",
  engine: string | undefined,
): FoundKey["meanings"] {
  if (engine === undefined) {
    const first = [...known.keys()].find((each) => each !== "") ?? description;
    return new Map([[first, []]]);
  }
  const engines = new Set([...(known.get(description) ?? []), engine]);
  return new Map([...known, [description, [...engines]]]);
}

function typeText(form: SchemaNode): string {
  if (form.const !== undefined) return String(form.const);
  if (form.enum) return form.enum.join(" | ");
  if (form.items) return `list of ${plural(formsOf(form.items).map(typeText))}`;
  const names: Record<string, string> = {
    string: "text",
    boolean: "true or false",
    integer: "whole number",
  };
  return typesOf(form)
    .map((type) => names[type] ?? type)
    .join(" or ");
}

function plural(types: readonly string[]): string {
  return types
    .map((type) => (/^(object|number)$/.test(type) ? `${type}s` : type))
    .map((type) => (type === "text" ? "texts" : type))
    .join(" or ");
}
