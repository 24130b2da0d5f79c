import type { Writable } from "node:stream";
import type { DownloadProgress } from "../engines/models/model-context.ts";
import type { Clock } from "../foundation/clock.ts";
import type { Logger } from "../foundation/logger.ts";
import { textLogger } from "../foundation/logger.ts";
import { shownText } from "../foundation/shown-path.ts";
import type { RunEvent } from "../run/status/events.ts";
import { initialProgress, reduceProgress } from "../run/status/progress-state.ts";
import { type Paint, paintFor } from "./colors.ts";
import { megabytes } from "./download-progress.ts";
import { eventMessage, percent, renderProgress, renderProgressLine } from "./progress-view.ts";
import { wrap } from "./table.ts";
import type { Terminal } from "./terminal.ts";

/** How progress is shown: a redrawn block, a line now and then, JSON lines, or not at all. */
export type ProgressMode = "block" | "lines" | "json" | "quiet";

/** Shows a run on stderr while it goes on. */
export interface Progress {
  /** Takes the run's events; pass it to the run as its listener. */
  onEvent(event: RunEvent): void;
  /** A logger whose lines never tear the block. Errors and warnings appear in quiet mode too. */
  readonly logger: Logger;
  /** Shows what is downloaded or waited for before the first row; undefined = done. */
  onStep(step: DownloadProgress | { text: string } | undefined): void;
  /**
   * Draws the last state and leaves it on the screen. Call it before other output; calling it again
   * does nothing.
   */
  close(): void;
}

interface ProgressOptions {
  mode: ProgressMode;
  stream: Pick<Writable, "write">;
  columns: () => number;
  clock: Clock;
  paint?: Paint;
}

const redrawIntervalMs = 100;
/** Redraws without an event too, since the time on the screen goes on. */
const tickIntervalMs = 1000;
const lineIntervalMs = 10_000;
const stepLineIntervalMs = 5000;
/** Beyond this many, more messages of one kind of failure say nothing new; the counts go on. */
const maxShownFailures = 3;

/** The mode for a command's options and its terminal. */
export function progressMode(
  options: { json?: boolean | undefined; quiet?: boolean | undefined },
  isTerminal: boolean,
): ProgressMode {
  if (options.json) return "json";
  if (options.quiet) return "quiet";
  return isTerminal ? "block" : "lines";
}

/** Shows progress on stderr in the mode for a command's options and its terminal. */
export function openProgress(
  options: { json?: boolean | undefined; quiet?: boolean | undefined },
  io: Terminal,
): Progress {
  const { stderr: stream, columns, clock, isTerminal } = io;
  const mode = progressMode(options, isTerminal);
  return showProgress({ mode, stream, columns, clock, paint: paintFor(isTerminal, io) });
}

/**
 * Progress on a stream.
 *
 * @example
 * const progress = showProgress({ mode, stream: io.stderr, columns: io.columns, clock: io.clock });
 * await execute({ onEvent: progress.onEvent, logger: progress.logger });
 * progress.close();
 */
export function showProgress(options: ProgressOptions): Progress {
  if (options.mode === "json") return jsonProgress(options);
  if (options.mode === "quiet") return quietProgress(options);
  return drawnProgress(options);
}

function jsonProgress({ stream, clock }: ProgressOptions): Progress {
  const put = (value: object) =>
    void stream.write(`${JSON.stringify({ time: clock.now(), ...value })}\n`);
  return {
    onEvent: put,
    onStep() {},
    logger: {
      log: (level, message, fields) =>
        put({ type: "log", level, message: shownText(message), ...fields }),
    },
    close() {},
  };
}

function quietProgress({ stream }: ProgressOptions): Progress {
  const logger = textLogger((line) => void stream.write(line));
  return {
    onEvent() {},
    onStep() {},
    logger: {
      log(level, message, fields) {
        if (level === "warn" || level === "error") logger.log(level, message, fields);
      },
    },
    close() {},
  };
}

function drawnProgress({ mode, stream, columns, clock, paint }: ProgressOptions): Progress {
  const isBlock = mode === "block";
  const painter = newPainter(stream, isBlock ? columns : undefined);
  let state = initialProgress(clock.monotonic());
  const isRepeated = repetitions();
  let cancelTimer: (() => void) | undefined;
  let [isClosed, isSoon] = [false, false];
  const draw = () => {
    cancelTimer = undefined;
    if (isBlock) {
      painter.paint(renderProgress(state, columns(), clock.monotonic(), paint));
      if (!isClosed) cancelTimer = clock.schedule(tickIntervalMs, draw);
    } else painter.print(renderProgressLine(state, clock.monotonic()));
  };
  const drawSoon = () => {
    if (isBlock && !isSoon) {
      isSoon = true;
      cancelTimer?.();
      cancelTimer = clock.schedule(redrawIntervalMs, () => {
        isSoon = false;
        draw();
      });
    }
    cancelTimer ??= clock.schedule(lineIntervalMs, draw);
  };
  const showStep = stepLines(clock, painter.print);
  const textLog = textLogger((line) => painter.print(line.trimEnd()));
  return {
    onEvent(event) {
      const message = isRepeated(event) ? undefined : eventMessage(event, state);
      state = reduceProgress(state, event, clock.monotonic());
      if (message) painter.print(message);
      drawSoon();
    },
    onStep(progress) {
      if (!isBlock) return showStep(progress);
      const { step: _, ...rest } = state;
      state = progress ? { ...rest, step: stepOf(progress) } : rest;
      drawSoon();
    },
    logger: {
      log(level, message, fields) {
        if (level !== "debug") textLog.log(level, message, fields);
      },
    },
    close() {
      // A command closes it before it prints an error, and again on its way out.
      if (isClosed) return;
      isClosed = true;
      cancelTimer?.();
      // Progress of planning is of no interest once the run has started.
      if (state.run) draw();
      painter.leave();
    },
  };
}

function stepOf(progress: DownloadProgress | { text: string }): { text: string; share?: number } {
  if ("text" in progress) return progress;
  const { name, bytes, totalBytes } = progress;
  if (bytes === 0) return { text: `fetching ${name}` };
  if (totalBytes === undefined) return { text: `fetching ${name}, ${megabytes(bytes)}` };
  const share = Math.min(1, bytes / totalBytes);
  return { text: `fetching ${name}, ${megabytes(totalBytes)}`, share };
}

/** Prints steps as lines; of a download, a line now and then. */
function stepLines(clock: Clock, print: (line: string) => void): Progress["onStep"] {
  let shownAtMs = Number.NEGATIVE_INFINITY;
  return (progress) => {
    if (!progress) return;
    const isDue = clock.monotonic() - shownAtMs >= stepLineIntervalMs;
    if (!("text" in progress) && !isDue) return;
    shownAtMs = clock.monotonic();
    const { text, share } = stepOf(progress);
    print(share === undefined ? text : `${text}: ${percent(share)}`);
  };
}

/** Returns a filter for events: true if an event was shown, or enough of its failure kind were. */
function repetitions(): (event: RunEvent) => boolean {
  const shown = new Map<string, number>();
  const shownRows = new Set<string>();
  return (event) => {
    const kind = kindOfFailure(event);
    if (kind === undefined) return false;
    if (event.type === "row-error" && shownRows.has(event.message)) return true;
    const count = (shown.get(kind) ?? 0) + 1;
    shown.set(kind, count);
    if (count > maxShownFailures) return true;
    if (event.type === "row-error") shownRows.add(event.message);
    return false;
  };
}

function kindOfFailure(event: RunEvent): string | undefined {
  if (event.type === "row-error") return event.code;
  return event.type === "task-end" ? event.error?.message : undefined;
}

const escapeCode = "\u001b[";

/** Draws a block of lines over the previous one, and prints other lines above it. */
function newPainter(stream: Pick<Writable, "write">, columns: (() => number) | undefined) {
  let shown: readonly string[] = [];
  // One write for each frame, so that two processes on one terminal tear each other less.
  const frame = (above: string, lines: readonly string[]) => {
    const back = shown.length === 0 ? "" : `${escapeCode}${shown.length}A\r${escapeCode}J`;
    const text = back + above + lines.map((line) => `${line}\n`).join("");
    shown = lines;
    if (text !== "") stream.write(text);
  };
  return {
    paint(lines: readonly string[]) {
      frame("", lines);
    },
    print(line: string) {
      if (line === "") return;
      const lines = columns ? wrap(line, columns() - 2) : [line];
      frame(`${lines.join("\n  ")}\n`, shown);
    },
    /** Leaves the block where it is; later output follows below it. */
    leave() {
      shown = [];
    },
  };
}
