import { isDeepStrictEqual } from "node:util";
import { formsOf, type SchemaNode } from "../src/run/job/schema-tree.ts";

/** Types of a job in TypeScript, with what each key means, from the job's JSON Schema. */

const columns = 100;
const notice = "// Written by npm run docs from the job's schema: edit that, not this.";
const anyNotice =
  "// biome-ignore-all lint/suspicious/noExplicitAny: schemas of zod are not records.";

interface NamedType {
  name: string;
  /** The schema without what is said at its place, by which equal ones share a name. */
  node: SchemaNode;
  text: string;
}

/** The files of types, by path. */
export function jobTypeFiles(schema: SchemaNode): ReadonlyMap<string, string> {
  const types = new JobTypes();
  types.add("JobInput", schema);
  const isOfModel = ({ name }: NamedType) => /^Job(?!Input$)\w*Model/.test(name);
  const models = types.named.filter(isOfModel);
  const others = types.named.filter((each) => !isOfModel(each));
  const used = models.map(({ name }) => name).filter((name) => uses(others, name));
  used.sort();
  const shared = others.map(({ name }) => name).filter((name) => uses(models, name));
  if (shared.length > 0) throw new Error(`models share ${shared.join(", ")} with other keys`);
  const imported = `import type {\n${used.map((name) => `  ${name},\n`).join("")}} from "./model-input.ts";`;
  const json = 'import type { Json } from "../../foundation/json.ts";';
  return new Map([
    ["src/run/job/job-input.ts", fileOf([json, imported], others)],
    ["src/run/job/model-input.ts", fileOf([json], models)],
  ]);
}

function uses(types: readonly NamedType[], name: string): boolean {
  return types.some(({ text }) => new RegExp(`\\b${name}(?!\\w)`).test(text));
}

function fileOf(imports: readonly string[], types: readonly NamedType[]): string {
  const needed = imports.filter((line) => !line.includes(" Json ") || uses(types, "Json"));
  const head = [...(uses(types, "any>") ? [anyNotice] : []), notice, ...needed, ""];
  return [...head, types.map(({ text }) => text).join("\n")].join("\n");
}

class JobTypes {
  readonly named: NamedType[] = [];

  /** Adds an object's type; says by which name it is known. */
  add(name: string, node: SchemaNode): string {
    const { description: _, default: __, kind: ___, title: ____, ...bare } = node;
    const same = this.named.find((each) => isDeepStrictEqual(each.node, bare));
    if (same) return same.name;
    const alike = this.named.filter((each) => each.name.replace(/\d+$/, "") === name).length;
    const type: NamedType = {
      name: alike === 0 ? name : `${name}${alike + 1}`,
      node: bare,
      text: "",
    };
    this.named.push(type);
    type.text = this.#interface(type.name, node);
    return type.name;
  }

  #interface(name: string, node: SchemaNode): string {
    const { properties = {}, required = [] } = node;
    const members = Object.entries(properties)
      .filter(([, { otherNameOf }]) => otherNameOf === undefined)
      .flatMap(([key, inner]) => {
        const isRequired = required.includes(key);
        const types = this.#typesOf(inner, pathName(name, key));
        return [...comment(said(inner)), ...member(key, types, isRequired)];
      });
    const title = name === "JobInput" ? "A job as it is written." : said(node);
    return [...comment(title, ""), `export interface ${name} {`, ...members, "}", ""].join("\n");
  }

  /** The members of the union that a place may hold. */
  #typesOf(node: SchemaNode, name: string): string[] {
    const types = formsOf(node).flatMap((form) => this.#formTypes(form, nameOfForm(form, name)));
    return [...new Set(types)];
  }

  #formTypes(form: SchemaNode, name: string): string[] {
    if (form.const !== undefined) return [JSON.stringify(form.const)];
    if (form.enum) return form.enum.map((value) => JSON.stringify(value));
    if (form.properties) return [this.add(name, form)];
    if (form.items) {
      const [only, ...others] = this.#typesOf(form.items, name);
      return [others.length === 0 ? `${only}[]` : `(${[only, ...others].join(" | ")})[]`];
    }
    if (typeof form.additionalProperties === "object" && keysOf(form.additionalProperties) > 0) {
      return [`Record<string, ${this.#typesOf(form.additionalProperties, name).join(" | ")}>`];
    }
    if ("$ref" in form) return ["Json"];
    const types = [form.type ?? []].flat().map((type) => plainTypes[type] ?? "unknown");
    return types.length > 0 ? types : ["unknown"];
  }
}

const plainTypes: Readonly<Record<string, string>> = {
  string: "string",
  number: "number",
  integer: "number",
  boolean: "boolean",
  null: "null",
  // A schema of zod too, which programs may give in place of JSON Schema.
  object: "Record<string, any>",
  array: "unknown[]",
};

function keysOf(node: object): number {
  return Object.keys(node).length;
}

/** The name of what a key holds: `JobInput` and `shard` make `JobShard`. */
function pathName(owner: string, key: string): string {
  const start = owner === "JobInput" ? "Job" : owner;
  const words = key.split("_").map((word) => `${word[0]!.toUpperCase()}${word.slice(1)}`);
  const name = `${start}${words.join("")}`;
  return name === "JobInput" ? "JobInputSource" : name;
}

/** Forms that engines tell apart have the engine in the name. */
function nameOfForm({ properties }: SchemaNode, name: string): string {
  const engine = properties?.engine?.const;
  if (typeof engine !== "string") return name;
  const words = engine.split("-").map((word) => `${word[0]!.toUpperCase()}${word.slice(1)}`);
  return `${name}${words.join("")}`;
}

function said({ description, default: value }: SchemaNode): string {
  if (description === undefined) return "";
  const isShown = value !== undefined && !/\bdefault\b/i.test(description);
  const whole = /[.!?]$/.test(description) ? description : `${description}.`;
  return isShown ? `${whole} Default: \`${JSON.stringify(value)}\`.` : whole;
}

function comment(text: string, indent = "  "): string[] {
  if (text === "") return [];
  const line = `${indent}/** ${text} */`;
  if (line.length <= columns) return [line];
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines.at(-1)!;
    if (`${indent} * ${last} ${word}`.length > columns) lines.push(word);
    else lines[lines.length - 1] = last === "" ? word : `${last} ${word}`;
  }
  return [`${indent}/**`, ...lines.map((each) => `${indent} * ${each}`), `${indent} */`];
}

/** A member as the formatter writes it. */
function member(key: string, types: readonly string[], isRequired: boolean): string[] {
  const all = isRequired ? types : [...types, "undefined"];
  const start = `  ${key}${isRequired ? "" : "?"}:`;
  const line = `${start} ${all.join(" | ")};`;
  if (line.length <= columns) return [line];
  return [start, ...all.map((type, at) => `    | ${type}${at === all.length - 1 ? ";" : ""}`)];
}
