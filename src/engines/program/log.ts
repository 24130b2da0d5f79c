import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import type { JsonObject } from "../../foundation/json.ts";

/** Characters of output that a log keeps; the rest is counted. */
export const maxLogChars = 16 * 1024 * 1024;

/** Characters of a line that are held until its end. */
const maxLineChars = 64 * 1024;

/** Characters of the last line, for messages. */
const maxLastLineChars = 300;

export interface OutputLogOptions {
  log(line: JsonObject): Promise<void>;
  /** Removes secrets. */
  redact(text: string): string;
  /** Milliseconds since the program's start. */
  elapsedMs(): number;
}

/**
 * What a program writes, as lines of its log: `{"ms": 12, "out": "text"}`, or `err`. A text is one
 * or more whole lines, unless a line is very long or the last one has no end. The program waits
 * while its output is stored.
 */
export class OutputLog {
  readonly #options: OutputLogOptions;
  #chars = 0;
  #leftOut = 0;
  #last: { out: string; err: string } = { out: "", err: "" };

  constructor(options: OutputLogOptions) {
    this.#options = options;
  }

  /** The last line that is not empty, of stderr if there is one. */
  get lastLine(): string {
    return this.#last.err || this.#last.out;
  }

  /** Characters that found no room. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /** Stores a stream to its end, or until it is destroyed. */
  async read(stream: Readable, name: "out" | "err"): Promise<void> {
    const decoder = new StringDecoder("utf8");
    let pending = "";
    try {
      for await (const chunk of stream) {
        pending += decoder.write(chunk as Buffer);
        const end = pending.length > maxLineChars ? pending.length : pending.lastIndexOf("\n") + 1;
        if (end > 0) await this.#keep(name, pending.slice(0, end));
        pending = pending.slice(end);
      }
    } catch (error) {
      // A child that left the process group may have held it open.
      if ((error as NodeJS.ErrnoException).code !== "ERR_STREAM_PREMATURE_CLOSE") throw error;
    }
    pending += decoder.end();
    if (pending !== "") await this.#keep(name, pending);
  }

  async #keep(name: "out" | "err", text: string): Promise<void> {
    const { log, redact, elapsedMs } = this.#options;
    const shown = redact(text);
    const last = shown.trimEnd().split("\n").at(-1)!.trim();
    if (last !== "") this.#last[name] = last.slice(0, maxLastLineChars);
    const room = Math.max(0, maxLogChars - this.#chars);
    this.#chars += shown.length;
    this.#leftOut += Math.max(0, shown.length - room);
    if (room > 0) await log({ ms: Math.round(elapsedMs()), [name]: shown.slice(0, room) });
  }
}
