import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import type { Origin } from "./problem.ts";

/** Keys that may be written as one text, and the key of the object which that text stands for. */
const shorthandKeys: Readonly<Record<string, string>> = { input: "path", prompt: "prompt" };

const unset: Origin = Object.freeze({ from: "default" });

/**
 * A job while its layers (file, environment, flags) are laid over one another. It remembers where
 * each value came from.
 */
export class JobDraft {
  readonly value: JsonObject = {};
  readonly #origins = new Map<string, Origin>();

  /** Sets the value at a path; null takes it back to the default. */
  set(path: readonly string[], value: Json, origin: Origin): void {
    this.#dropRival(path[0]!, origin);
    let target: JsonObject | Json[] = this.value;
    for (const [depth, key] of path.slice(0, -1).entries()) {
      target = enter(target, key, path.slice(0, depth + 1));
    }
    // One object in a list is meant when the list is addressed as if it were that object.
    if (Array.isArray(target) && !/^\d+$/.test(path.at(-1)!)) target = onlyElement(target);
    assign(target, path.at(-1)!, value, path);
    this.#remember(dotted(path), origin);
  }

  /** Where the value at a path came from: the last layer that set it or something around it. */
  originOf(path: readonly string[]): Origin {
    for (let length = path.length; length > 0; length--) {
      const origin = this.#origins.get(dotted(path.slice(0, length)));
      if (origin) return origin;
    }
    return unset;
  }

  /** A layer that says `prompt` replaces `prompts` of the layers below, and the reverse. */
  #dropRival(key: string, origin: Origin): void {
    const rival = key === "prompt" ? "prompts" : key === "prompts" ? "prompt" : undefined;
    // Both in one layer is a mistake, which the schema reports.
    if (rival === undefined || this.#isOfLayer(rival, origin)) return;
    delete this.value[rival];
    this.#remember(rival, unset);
  }

  #isOfLayer(key: string, { from }: Origin): boolean {
    const known = [...this.#origins].filter(([at]) => at === key || at.startsWith(`${key}.`));
    return known.some(([, origin]) => origin.from === from);
  }

  #remember(key: string, origin: Origin): void {
    for (const known of this.#origins.keys()) {
      if (known.startsWith(`${key}.`)) this.#origins.delete(known);
    }
    this.#origins.set(key, origin);
  }
}

/** `input.path` and `input.0.path` are one place: a single input may stand alone or in a list. */
function dotted(path: readonly string[]): string {
  return path.join(".").replace(/^input\.0\./, "input.");
}

function enter(
  target: JsonObject | Json[],
  key: string,
  path: readonly string[],
): JsonObject | Json[] {
  const holder = Array.isArray(target) && !/^\d+$/.test(key) ? onlyElement(target) : target;
  const slots = holder as JsonObject;
  const inner = slots[key];
  if (typeof inner === "object" && inner !== null) return inner;
  const long =
    path[0] === "prompts" && path.length === 2 ? "prompt" : shorthandKeys[path.join(".")];
  const created: JsonObject = typeof inner === "string" && long ? { [long]: inner } : {};
  slots[key] = created;
  return created;
}

function onlyElement(list: Json[]): JsonObject {
  const [only] = list;
  if (list.length === 1 && typeof only === "string") {
    const expanded = { path: only };
    list[0] = expanded;
    return expanded;
  }
  if (list.length === 1 && isJsonObject(only)) return only;
  throw new RangeError("it is a list of several: name one by its index, as input.0.path");
}

function assign(
  target: JsonObject | Json[],
  key: string,
  value: Json,
  path: readonly string[],
): void {
  if (Array.isArray(target)) {
    const index = Number(key);
    if (index > target.length) throw new RangeError(`the list has only ${target.length} entries`);
    target[index] = value;
    return;
  }
  // `env: {NAME: null}` means the caller's value; anywhere else null means nothing was said.
  if (value === null && path[0] !== "env") delete target[key];
  else target[key] = value;
}
