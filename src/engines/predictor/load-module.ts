import { basename } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { editDistance, nearest } from "../../foundation/suggest.ts";
import { explained, importedModule, isClass, namedExport } from "../user-module.ts";
import type { Predictor } from "./predictor.ts";
import { handlerPredictor, type TorchServeHandler } from "./torchserve.ts";

type Functions = Record<string, unknown>;

const ownNames = ["load", "predict", "close"];
const handlerNames = ["initialize", "preprocess", "inference", "postprocess", "handle"];
const calledNames = [...ownNames, ...handlerNames];
/** Any of these makes a predictor. */
const neededNames = ["predict", "handle", "preprocess", "inference", "postprocess"];

/**
 * Loads a module and finds the predictor in it: functions by name, a class, or an object, with our
 * life cycle (`load`, `predict`, `close`) or TorchServe's.
 *
 * @param path absolute.
 * @param exportName the export to use; default: `default`, else all of them together.
 * @throws SluiceError `PREDICTOR_UNUSABLE`, with the file and its fault.
 */
export async function loadPredictorModule(path: string, exportName?: string): Promise<Predictor> {
  const exports = await importedModule(path, unusable);
  const functions = functionsOf(chosenExport(exports, exportName, path), path);
  if (namesIn(functions, neededNames).length === 0) {
    throw missingFunction(functions, path);
  }
  refuseMixed(functions, path);
  refuseMisspelt(functions, path);
  return typeof functions.predict === "function"
    ? bound<Predictor>(functions, ownNames)
    : handlerPredictor(bound<TorchServeHandler>(functions, handlerNames));
}

function chosenExport(exports: Functions, name: string | undefined, path: string): unknown {
  if (name === undefined) return defaultExport(exports, path) ?? exports;
  return namedExport(exports, name, { path, key: "model.export", unusable });
}

function defaultExport(exports: Functions, path: string): unknown {
  const given = exports.default as Functions | null | undefined;
  // CommonJS from compilers: `import` gives the whole module as its default export.
  const chosen = given?.__esModule === true ? (given.default ?? given) : given;
  if (chosen === undefined || chosen === null) return chosen;
  const beside = namesIn(exports, calledNames).filter(
    (name) => exports[name] !== (chosen as Functions)[name],
  );
  if (beside.length === 0) return chosen;
  const [is, them] = beside.length === 1 ? ["is", "it"] : ["are", "them"];
  throw unusable(
    path,
    `its default export is used, and ${listed(beside)}, beside it, ${is} called by nobody: ` +
      `put ${them} into the default export, or export all by name`,
  );
}

/** The object whose functions are called: for a class an instance, for a function itself. */
function functionsOf(chosen: unknown, path: string): Functions {
  if (typeof chosen === "function") {
    if (!isClass(chosen)) return { predict: chosen };
    try {
      return new (chosen as new () => Functions)();
    } catch (thrown) {
      throw unusable(path, `new ${chosen.name}() failed: ${explained(thrown, path)}`, thrown);
    }
  }
  if (typeof chosen === "object" && chosen !== null) return chosen as Functions;
  throw unusable(path, `its export is ${chosen === null ? "null" : `a ${typeof chosen}`}`);
}

function bound<Shape extends object>(functions: Functions, names: readonly string[]): Shape {
  const entries = names.flatMap((name) => {
    const value = functions[name];
    return typeof value === "function" ? [[name, value.bind(functions)] as const] : [];
  });
  return Object.fromEntries(entries) as Shape;
}

function missingFunction(functions: Functions, path: string): SluiceError {
  const names = functionNames(functions);
  for (const name of names) {
    const meant = nearest(name, neededNames);
    if (meant !== undefined) return unusable(path, `it exports ${name}; did you mean ${meant}?`);
  }
  const exported = names.length === 0 ? "no function" : names.join(", ");
  return unusable(path, `it exports ${exported}; needed is predict(batch)`);
}

/** With two life cycles in one module, the functions of one would silently never be called. */
function refuseMixed(functions: Functions, path: string): void {
  const own = namesIn(functions, ownNames);
  const handler = namesIn(functions, handlerNames);
  if (own.length === 0 || handler.length === 0) return;
  const isOwn = own.includes("predict");
  const [called, uncalled] = isOwn
    ? [["predict"], handler]
    : [namesIn(functions, neededNames), own];
  throw unusable(
    path,
    `it exports ${listed([...own, ...handler])}, of two life cycles, and beside ` +
      `${listed(called)} nobody calls ${listed(uncalled)}: keep to ${listed(ownNames)} or to ` +
      `TorchServe's ${listed(handlerNames)}, and give helpers other names`,
  );
}

function namesIn(functions: Functions, names: readonly string[]): string[] {
  return names.filter((name) => typeof functions[name] === "function");
}

function listed(names: readonly string[]): string {
  return names.join(", ").replace(/, (?=[^,]*$)/, " and ");
}

/** A function with a similar name to a called one would silently never be called. */
function refuseMisspelt(functions: Functions, path: string): void {
  const own = typeof functions.predict === "function" ? ownNames : handlerNames;
  const missing = own.filter((name) => typeof functions[name] !== "function");
  for (const name of functionNames(functions)) {
    if (own.includes(name)) continue;
    const meant = missing.find((called) => isMisspelt(name, called));
    if (meant === undefined) continue;
    throw unusable(path, `it exports ${name}, which nobody calls; did you mean ${meant}?`);
  }
}

/** One wrong letter, or two swapped ones: `log` is not meant to be `load`. */
function isMisspelt(name: string, called: string): boolean {
  const letters = (word: string) => [...word.toLowerCase()].sort().join("");
  const isSwapped = name.length === called.length && letters(name) === letters(called);
  return isSwapped || editDistance(name.toLowerCase(), called.toLowerCase()) <= 1;
}

/** Names of functions, for an instance those of its class. */
function functionNames(functions: Functions): string[] {
  const prototype: unknown = Object.getPrototypeOf(functions);
  const isPlain = prototype === null || prototype === Object.prototype;
  const inherited = isPlain ? [] : Object.getOwnPropertyNames(prototype);
  const names = [...Object.keys(functions), ...inherited];
  return names.filter((name) => name !== "constructor" && typeof functions[name] === "function");
}

function unusable(path: string, problem: string, cause?: unknown): SluiceError {
  return new SluiceError("PREDICTOR_UNUSABLE", `${basename(path)}: ${problem}`, {
    file: path,
    field: "model.module",
    cause,
  });
}
