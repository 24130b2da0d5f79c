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

/** How progress is shown: a block in place, a line now and then, JSON lines, or not at all. */
export type ProgressMode = "block" | "lines" | "json" | "quiet";

/** Shows a run on stderr while it goes on. */
export interface Progress {
  /** Takes what happens; give it to the run as its listener. */
  onEvent(event: RunEvent): void;
  /** Logs that never tear the block. Errors and warnings are shown in quiet mode too. */
  readonly logger: Logger;
  /** Says what is fetched or waited for before the first row; undefined = it is there. */
  onStep(step: DownloadProgress | { text: string } | undefined): void;
  /**
   * Draws the last state and leaves it standing. Call it before anything else is printed; once is
   * enough, and more do no harm.
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
/** While nothing happens, time goes on all the same. */
const tickIntervalMs = 1000;
const lineIntervalMs = 10_000;
const stepLineIntervalMs = 5000;
/** Messages of one kind of failure beyond these say nothing new; the counts go on. */
const maxShownFailures = 3;

/** The mode that the options of a command and its terminal ask for. */
export function progressMode(
  options: { json?: boolean | undefined; quiet?: boolean | undefined },
  isTerminal: boolean,
): ProgressMode {
  if (options.json) return "json";
  if (options.quiet) return "quiet";
  return isTerminal ? "block" : "lines";
}

/** Progress of a command on stderr, as its options and the terminal ask for. */
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
      // Whoever reports an error after the run closes it first, and once more on the way out.
      if (isClosed) return;
      isClosed = true;
      cancelTimer?.();
      // How far planning was is of no interest after it.
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

/** Says steps in lines: of what is fetched, how far it is now and then. */
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

/** Tells for each event whether it was shown before, or enough of its kind of failures were. */
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

/** Writes a block of lines over the one before it, and other lines above it. */
function newPainter(stream: Pick<Writable, "write">, columns: (() => number) | undefined) {
  let shown: readonly string[] = [];
  // One write a frame: two processes that write to one terminal then cut each other less.
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
    /** The block stays where it is; what comes next stands below it. */
    leave() {
      shown = [];
    },
  };
}
