import { asSluiceError, type SluiceError, wordedError } from "../foundation/errors.ts";
import type { RunEvent } from "../run/status/events.ts";

/** What a person types, and the option of a program that does the same. */
const words: readonly [typed: RegExp, written: string][] = [
  [/--overwrite\b/g, "overwrite: true"],
  [/--fork\b/g, "fork: true"],
  [/--extend\b/g, "extend: true"],
  [/--no-install\b/g, "install: false"],
  [/--output\b/g, "output"],
  [/--store\.conditional none\b/g, 'store: { conditional: "none" }'],
  [/ or --model NAME\b/g, ""],
  [/ \(--served-model-name\)/g, ""],
  [/see sluice( run)? --help( for every option)?/g, "see docs/typescript.md"],
  [/\brun the same command again\b/g, "call it again"],
  [/\bthe same command\b/g, "the same call"],
];

/** A text for a program's author; the flags of a whole command (`sluice retry …`) stay. */
export function programText(text: string): string {
  return text
    .split(/(?<=[;:(,])(?= )/)
    .map((part) =>
      /\bsluice (?!(run )?--help)/.test(part)
        ? part
        : words.reduce((told, [typed, written]) => told.replace(typed, written), part),
    )
    .join("");
}

/** The same error with the options of `run` where it named flags of the command line. */
export function programError(thrown: unknown): SluiceError {
  const error = asSluiceError(thrown);
  const [message, hint] = [programText(error.message), programText(error.hint)];
  if (message === error.message && hint === error.hint) return error;
  const { code, place, cause, retryAfterMs, server, stack } = error;
  const told = wordedError(code, message, { ...place, retryAfterMs, server, hint, cause });
  if (stack !== undefined) told.stack = stack.replace(error.message, message);
  return told;
}

/** An event likewise. */
export function programEvent(event: RunEvent): RunEvent {
  return event.type === "notice" ? { ...event, message: programText(event.message) } : event;
}
