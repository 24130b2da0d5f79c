import { shownText } from "./shown-path.ts";

/** Severity of a log line, least first. */
export type LogLevel = "debug" | "info" | "warn" | "error";

/** Where log lines go. Fields are data; a secret must never be one. */
export interface Logger {
  log(level: LogLevel, message: string, fields?: Record<string, unknown>): void;
}

/** Drops every line. */
export const silentLogger: Logger = { log() {} };

/** Writes lines for people through `write`, one call a line: `warn: it is slow (seconds 3)`. */
export function textLogger(write: (line: string) => void): Logger {
  return {
    log(level, message, fields = {}) {
      const facts = Object.entries(fields).map(
        ([key, value]) => `${inWords(key)} ${asText(value)}`,
      );
      const more = facts.length === 0 ? "" : ` (${facts.join(", ")})`;
      write(shownText(`${level === "info" ? "" : `${level}: `}${message}${more}\n`));
    },
  };
}

/** `freeBytes` as `free bytes`. */
function inWords(key: string): string {
  return key.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
