import { styleText } from "node:util";
import type { Terminal } from "./terminal.ts";

/** Marks text on a terminal; elsewhere, and with `NO_COLOR`, it stays as it is. */
export type Paint = (color: "bold" | "dim" | "green" | "yellow" | "red", text: string) => string;

/** The paint of one output. */
export function paintFor(
  isTerminal: boolean,
  { environment }: Pick<Terminal, "environment">,
): Paint {
  if (!isTerminal || environment.NO_COLOR) return (_, text) => text;
  return (color, text) => styleText(color, text, { validateStream: false });
}
