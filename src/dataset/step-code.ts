import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { assertOptions, type OptionNames } from "../foundation/call-options.ts";
import { SluiceError } from "../foundation/errors.ts";
import { digestOf, sha256Hex } from "../foundation/hashing.ts";
import type { JsonObject } from "../foundation/json.ts";
import { typedResult } from "../foundation/json-result.ts";
import { parseMemory } from "../foundation/memory-size.ts";
import { toWire } from "../foundation/typed-json.ts";
import type { StepCode } from "./step.ts";
import type { BatchOptions, Closure } from "./types.ts";

/**
 * The code of a stage, with a digest that tells it from other code.
 *
 * @param call the dataset method that got the code, for messages.
 * @throws SluiceError `USAGE` if it is not code, or if no digest can tell it from other code.
 */
export function stepCodeOf(call: string, code: unknown, closure: Closure | undefined): StepCode {
  if (typeof code === "function") {
    const own = code as (...parameters: never[]) => unknown;
    return { function: own, sha256: functionDigest(call, own, closure) };
  }
  if (typeof code === "string" || code instanceof URL) {
    if (closure === undefined) return moduleOf(code);
    throw new SluiceError("USAGE", `${call}: closure is of functions, and this is a module`, {
      hint: "give a class of the module constructorArgs; its file is part of what a run is of",
    });
  }
  const found = code === null ? "null" : typeof code;
  throw new SluiceError("USAGE", `${call} takes code, not ${found}`, {
    hint:
      "give a function, a class (each replica makes an instance of it), or the address of a " +
      "module: new URL('./stage.ts', import.meta.url)",
  });
}

function functionDigest(
  call: string,
  code: (...parameters: never[]) => unknown,
  closure: Closure | undefined,
): string {
  // All bound functions have the same text.
  if (code.name.startsWith("bound ")) {
    throw new SluiceError("USAGE", `${call}: nothing tells a bound function from another one`, {
      hint: "give (row) => object.method(row), and closure: { … } with what it reads",
    });
  }
  const text = String(code);
  if (closure === undefined) return sha256Hex(text);
  const values = Object.entries(closure).map(([name, value]) => [
    name,
    valueOfClosure(call, name, value),
  ]);
  return digestOf([text, Object.fromEntries(values)]);
}

function valueOfClosure(call: string, name: string, value: unknown): unknown {
  if (typeof value === "function") return ["function", sha256Hex(String(value))];
  if (value === undefined) return ["undefined"];
  const typed = typedResult(value, (problem) => {
    return new SluiceError("USAGE", `${call}: closure.${name}${problem}`, {
      hint: "give a list for a Set, an object for a Map, and of a resource what names it",
    });
  });
  return ["value", toWire(typed)];
}

/**
 * Code that any worker can load: the address of a module, or its path relative to the working
 * directory. A name after `#` selects an export; default: the default export.
 * `${import.meta.url}#Name` is an export of the module in which it is written.
 */
export type ModuleReference = URL | string;

/** The module and export of a reference. @throws SluiceError `USAGE` for other schemes. */
function moduleOf(reference: ModuleReference): StepCode {
  const text = String(reference);
  const mark = text.lastIndexOf("#");
  const address = mark < 0 ? text : text.slice(0, mark);
  const name = mark < 0 ? "" : text.slice(mark + 1);
  return { module: pathOf(address), ...(name !== "" && { export: name }) };
}

function pathOf(address: string): string {
  if (address.startsWith("file:")) return fileURLToPath(address);
  if (!/^[a-z][a-z0-9+.-]+:/i.test(address)) return address;
  throw new SluiceError("USAGE", `a stage cannot be loaded from ${address}`, {
    hint: "name a module of this machine: new URL('./stage.ts', import.meta.url), or its path",
  });
}

/** Where the options of datasets are explained. */
export const optionsPage = "docs/dataset.md";

const optionNames: OptionNames<BatchOptions> = {
  batchSize: true,
  rows: true,
  batchFormat: true,
  concurrency: true,
  numCpus: true,
  numGpus: true,
  memory: true,
  constructorArgs: true,
  timeoutMs: true,
  name: true,
  closure: true,
};

/**
 * The stage of a `mapBatches` call, as a job has it.
 *
 * @throws SluiceError `OPTION_UNKNOWN`, which names the nearest option.
 */
export function batchStage(options: BatchOptions): JsonObject {
  assertOptions("mapBatches", options, optionNames, optionsPage);
  const { memory, closure: _, ...others } = options;
  const memoryBytes = typeof memory === "string" ? parseMemory(memory) : memory;
  const stage = {
    kind: "mapBatches",
    ...others,
    ...(memoryBytes !== undefined && { memoryBytes }),
  };
  const { constructorArgs } = others;
  if (!isDeepStrictEqual(asJson(constructorArgs), constructorArgs)) {
    throw new SluiceError("USAGE", "constructorArgs hold what JSON does not have", {
      hint: "give texts, numbers, lists and objects: they are written into the plan",
    });
  }
  return JSON.parse(JSON.stringify(stage)) as JsonObject;
}

/** A value as JSON gives it back; undefined if it has no text, as a `bigint` or a cycle. */
function asJson(value: unknown): unknown {
  try {
    return value === undefined ? value : JSON.parse(JSON.stringify(value));
  } catch {
    return undefined;
  }
}
