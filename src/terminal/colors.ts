import { styleText } from "node:util";
import type { Terminal } from "./terminal.ts";

/** Colors text on a terminal; returns it unchanged elsewhere and with `NO_COLOR`. */
export type Paint = (color: "bold" | "dim" | "green" | "yellow" | "red", text: string) => string;

/** Makes the `Paint` of one output. */
export function paintFor(
  isTerminal: boolean,
  { environment }: Pick<Terminal, "environment">,
): Paint {
  if (!isTerminal || environment.NO_COLOR) return (_, text) => text;
  return (color, text) => styleText(color, text, { validateStream: false });
}
