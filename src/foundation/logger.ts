/** Severity of a log line, least first. */
export type LogLevel = "debug" | "info" | "warn" | "error";

/** Where log lines go. Fields are data; a secret must never be one. */
export interface Logger {
  log(level: LogLevel, message: string, fields?: Record<string, unknown>): void;
}

/** Drops every line. */
export const silentLogger: Logger = { log() {} };

/** Writes `level message key=value …` lines through `write`, one call a line. */
export function textLogger(write: (line: string) => void): Logger {
  return {
    log(level, message, fields = {}) {
      const pairs = Object.entries(fields).map(([key, value]) => ` ${key}=${asText(value)}`);
      write(`${level === "info" ? "" : `${level}: `}${message}${pairs.join("")}\n`);
    },
  };
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
