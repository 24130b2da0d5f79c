import { fileURLToPath } from "node:url";
import { SluiceError } from "../foundation/errors.ts";
import type { StepCode } from "./step.ts";

/**
 * Code that any worker can load: the address of a module, or its path relative to the working
 * directory. A name after `#` selects an export; default: the default export.
 * `${import.meta.url}#Name` is an export of the module in which it is written.
 */
export type ModuleReference = URL | string;

/** The module and export of a reference. @throws SluiceError `USAGE` for other schemes. */
export function moduleOf(reference: ModuleReference): StepCode {
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
