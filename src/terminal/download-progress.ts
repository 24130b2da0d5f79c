import type { DownloadProgress } from "../engines/models/model-context.ts";
import { clip } from "./table.ts";
import type { Terminal } from "./terminal.ts";

/** Interval between two redraws on a terminal, and between two lines elsewhere. */
const redrawIntervalMs = 100;
const lineIntervalMs = 5000;
const barWidth = 24;

/**
 * Shows the progress of downloads on stderr: one redrawn line on a terminal, else a line now and
 * then.
 */
export interface DownloadReporter {
  report(progress: DownloadProgress): void;
  /** Erases the drawn line. Call it before other output, and at the end. */
  clear(): void;
}

/**
 * A reporter for one command.
 *
 * @example
 * const reporter = downloadReporter(io);
 * await pullModel(name, context, { onProgress: reporter.report });
 * reporter.clear();
 */
export function downloadReporter(
  io: Pick<Terminal, "stderr" | "isTerminal" | "columns" | "clock">,
): DownloadReporter {
  const intervalMs = io.isTerminal ? redrawIntervalMs : lineIntervalMs;
  let drawn = false;
  let shownAtMs = Number.NEGATIVE_INFINITY;
  let source = "";
  let startedAtMs = 0;
  let startedBytes = 0;
  return {
    report(progress) {
      const nowMs = io.clock.monotonic();
      if (progress.source !== source) {
        source = progress.source;
        startedAtMs = nowMs;
        startedBytes = progress.bytes;
      }
      if (nowMs - shownAtMs < intervalMs) return;
      shownAtMs = nowMs;
      const seconds = (nowMs - startedAtMs) / 1000;
      const rate = seconds > 0 ? (progress.bytes - startedBytes) / seconds : 0;
      const line = progressLine(progress, rate);
      if (io.isTerminal) io.stderr.write(`\r\x1b[K${clip(line, io.columns() - 1)}`);
      else io.stderr.write(`${line}\n`);
      drawn = io.isTerminal;
    },
    clear() {
      if (drawn) io.stderr.write("\r\x1b[K");
      drawn = false;
    },
  };
}

function progressLine(progress: DownloadProgress, bytesPerSecond: number): string {
  const { name, source, bytes, totalBytes } = progress;
  if (bytes === 0) return `${name}  starting  from ${source}`;
  const parts = [name];
  if (totalBytes === undefined) parts.push(megabytes(bytes));
  else {
    const share = Math.min(1, bytes / totalBytes);
    const full = Math.round(share * barWidth);
    parts.push(`${"█".repeat(full)}${"░".repeat(barWidth - full)}`);
    parts.push(`${Math.floor(share * 100)} %`, `${megabytes(bytes)} of ${megabytes(totalBytes)}`);
  }
  if (bytesPerSecond > 0) parts.push(`${megabytes(bytesPerSecond)}/s`);
  return `${parts.join("  ")}  from ${source}`;
}

/** Bytes in units of a million bytes, such as `98.4 MB`. */
export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
