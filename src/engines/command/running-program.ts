import { stripVTControlCharacters } from "node:util";
import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { withoutSpecials } from "../../foundation/exact-json.ts";
import {
  type LeashEnd,
  type LeashedProcess,
  startLeashed,
} from "../../foundation/leashed-process.ts";
import { limits } from "../../foundation/limits.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { Spawn } from "../../foundation/subprocess.ts";
import { readOutputLines } from "../output-lines.ts";
import { afterWriting, EndedEarly } from "../restarting.ts";
import { redactor } from "../secrets.ts";
import {
  type BatchLine,
  commandProtocol,
  type ReadyLine,
  type ReplyLine,
  readProgramLine,
} from "./protocol.ts";

/** Characters to keep of a line of the program. */
const maxProgramLineChars = 1000;

/** Lines outside the protocol on its stdout that the log shows. */
const maxStrayLines = 20;

/** The program, and how it is started. */
export interface ProgramOptions {
  command: string;
  args: readonly string[];
  workingDirectory: string | undefined;
  environment: Readonly<Record<string, string | undefined>>;
  /** Longest time of one batch. */
  timeoutMs: number;
  /** Longest time to get ready. */
  loadTimeoutMs?: number;
}

/** What running a program needs of the outside world. */
export interface ProgramContext {
  clock: Clock;
  logger: Logger;
  spawn?: Spawn;
}

/** The batch in work. */
interface Asked {
  batch: number;
  resolve: (reply: ReplyLine) => void;
  reject: (error: unknown) => void;
}

/** One life of a program, from its start to its end. */
export class RunningProgram {
  /**
   * The program's message when it gets ready.
   *
   * @throws SluiceError `ENGINE_START_FAILED` if it ended or wrote something else instead.
   */
  readonly ready: Promise<ReadyLine>;
  /** Resolves with how it ended, and with its last line. */
  readonly ended: Promise<string>;
  readonly pid: number | undefined;
  readonly #options: ProgramOptions;
  readonly #context: ProgramContext;
  readonly #process: LeashedProcess;
  readonly #redact: (text: string) => string;
  readonly #becomesReady = Promise.withResolvers<ReadyLine>();
  /** Its last lines outside the protocol. */
  readonly #lines: string[] = [];
  /** Lines on stdout outside the protocol. */
  #strayLines = 0;
  #asked: Asked | undefined;
  #isReady = false;
  #hasEnded = false;
  /** Why this side ended it. */
  #killedBecause: string | undefined;
  /** It did not answer a batch in time. */
  #isLate = false;

  constructor(options: ProgramOptions, context: ProgramContext) {
    this.#options = options;
    this.#context = context;
    const { command, args, workingDirectory, environment } = options;
    const { clock, spawn } = context;
    this.#redact = redactor(environment);
    const leash = { environment, workingDirectory, clock, ...(spawn && { spawn }) };
    this.#process = startLeashed(command, args, leash);
    this.pid = this.#process.pid;
    this.ready = this.#becomesReady.promise;
    // Callers that do not wait for it learn of a failed start by `ended`.
    this.ready.catch(() => {});
    this.#readOutput();
    const timeoutMs = options.loadTimeoutMs ?? limits.workerReadyTimeoutMs;
    const cancel = clock.schedule(timeoutMs, () =>
      this.#end(`not ready after ${timeoutMs / 1000} s (loadTimeoutMs)`),
    );
    void this.ready.then(cancel, cancel);
    this.ended = this.#process.ended.then((end) => this.#onEnd(end));
  }

  /**
   * Sends a batch and waits for its answer. One batch at a time.
   *
   * @throws SluiceError `ENGINE_DIED` if the program ended, `ENGINE_STALLED` if it did not answer
   *   in time and was ended.
   */
  ask(line: BatchLine): Promise<ReplyLine> {
    const { clock } = this.#context;
    const { timeoutMs } = this.#options;
    if (this.#hasEnded) {
      return Promise.reject(new SluiceError("ENGINE_DIED", "it ended during a request"));
    }
    const { promise, resolve, reject } = Promise.withResolvers<ReplyLine>();
    this.#asked = { batch: line.batch, resolve, reject };
    const cancel = clock.schedule(timeoutMs, () => {
      this.#isLate = true;
      const rows = line.items.length === 1 ? "1 row" : `${line.items.length} rows`;
      this.#end(`no answer to ${rows} within ${timeoutMs / 1000} s`);
    });
    this.#process.stdin.write(`${lineText(line)}\n`);
    return promise.finally(cancel);
  }

  /** Lets it end by itself, and ends it if it computes or takes too long. */
  async close(): Promise<void> {
    const { clock } = this.#context;
    const cancelKill = clock.schedule(limits.stopGraceMs, () => this.kill());
    if (this.#asked) this.kill();
    this.#process.stdin.end();
    await this.ended;
    cancelKill();
  }

  /** Ends it at once. */
  kill(): void {
    this.#process.kill();
  }

  #readOutput(): void {
    const { stdout, stderr } = this.#process;
    readOutputLines(stderr, limits.maxCommandOutputBytes, {
      onLine: (line) => {
        const shown = this.#redact(lastDrawn(line));
        this.#keep(shown);
        this.#context.logger.log("debug", shown, { program: this.#options.command });
      },
    });
    readOutputLines(stdout, limits.maxMessageBytes, {
      onLine: (line) => this.#read(line),
      onTooLong: () =>
        this.#end(`it wrote a line of more than ${limits.maxMessageBytes} characters`),
    });
  }

  #read(line: string): void {
    const read = readProgramLine(line);
    if (read === undefined) return this.#onStray(line);
    if (read.type === "ready") return this.#onReady(read, line);
    if (read.batch !== this.#asked?.batch) {
      this.#context.logger.log("warn", `an answer to batch ${read.batch}, which is not asked`);
      return;
    }
    const { resolve } = this.#asked;
    this.#asked = undefined;
    resolve(read);
  }

  #onReady(ready: ReadyLine, line: string): void {
    // It may say more of that later, such as in a library's log.
    if (this.#isReady) return this.#onStray(line);
    if (ready.protocol === commandProtocol) {
      this.#isReady = true;
      return this.#becomesReady.resolve(ready);
    }
    const shown = this.#redact(line).slice(0, maxProgramLineChars);
    const detail = `${this.#options.command} wrote ${shown}, where "ready" is not ${commandProtocol}`;
    const hint =
      `write {"ready": ${commandProtocol}}: it is the version of the protocol; ` +
      "see docs/engine-command.md";
    this.#becomesReady.reject(new SluiceError("ENGINE_START_FAILED", detail, { hint }));
    this.kill();
  }

  #onStray(line: string): void {
    const shown = this.#redact(line).slice(0, maxProgramLineChars);
    this.#keep(shown);
    this.#strayLines++;
    if (this.#strayLines > maxStrayLines) return;
    const isLast = this.#strayLines === maxStrayLines;
    const more = isLast ? " (further ones are not shown)" : "";
    this.#context.logger.log(
      "warn",
      `a line on stdout is not part of the protocol${more}: ${shown}`,
    );
  }

  #keep(line: string): void {
    this.#lines.push(line.slice(0, maxProgramLineChars));
    if (this.#lines.length > limits.maxHostOutputLines) this.#lines.shift();
  }

  #end(reason: string): void {
    this.#killedBecause ??= reason;
    this.kill();
  }

  #onEnd(end: LeashEnd): string {
    this.#hasEnded = true;
    const how = this.#killedBecause ?? end.how;
    this.#becomesReady.reject(this.#startFailure(how, end));
    const last = this.#lines.at(-1);
    const told = `${how}${last === undefined ? "" : `; its last line: ${last}`}`;
    const code = this.#isLate ? "ENGINE_STALLED" : "ENGINE_DIED";
    this.#asked?.reject(new SluiceError(code, told));
    this.#asked = undefined;
    return told;
  }

  #startFailure(how: string, { code }: LeashEnd): SluiceError {
    const { command, workingDirectory } = this.#options;
    const written = afterWriting(this.#lines);
    const from = workingDirectory === undefined ? "" : `; paths start from ${workingDirectory}`;
    if (code === shellNotFound) {
      const hint = `install it, or give its path in model.command${from}`;
      return new SluiceError("PROGRAM_MISSING", `${command} is not on PATH${written}`, { hint });
    }
    if (code === shellNotExecutable) {
      const hint = "make it executable, or name what runs it in model.command, such as python3";
      return new SluiceError("PROGRAM_MISSING", `${command} cannot be run${written}`, { hint });
    }
    const hint =
      'it has to write {"ready": 1} and to answer batches until its stdin ends; ' +
      "see docs/engine-command.md";
    return new EndedEarly(`${command}: ${how}, before it was ready`, this.#lines, hint);
  }
}

/** The last state of a progress bar, which is drawn again after each carriage return. */
function lastDrawn(line: string): string {
  return (
    stripVTControlCharacters(line)
      .split("\r")
      .findLast((each) => each.trim() !== "") ?? ""
  );
}

/** A shell's exit codes for a missing program, or one that cannot be run. */
const shellNotFound = 127;
const shellNotExecutable = 126;

/** U+2028 and U+2029 are escaped: `node:readline`, which a program may use, ends lines there. */
function lineText(line: BatchLine): string {
  return withoutSpecials(JSON.stringify(line)).replace(/[\u2028\u2029]/g, (separator) =>
    separator === "\u2028" ? "\\u2028" : "\\u2029",
  );
}
