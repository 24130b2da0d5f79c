import type { IncomingHttpHeaders } from "node:http";
import { limits } from "../../../foundation/limits.ts";
import { type HttpReply, type ReplySink, TransportError } from "../transport.ts";

const newline = 10;

/** Cuts a reply into its lines while it arrives, so that memory holds one of them. */
export class LineSink implements ReplySink {
  readonly takesAnyType = true;
  readonly #onLine: (line: Buffer) => void;
  #rest: Buffer[] = [];
  #restBytes = 0;

  /** @param onLine called with each line that is not empty, without its end. */
  constructor(onLine: (line: Buffer) => void) {
    this.#onLine = onLine;
  }

  add(chunk: Buffer): void {
    let from = 0;
    for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
      this.#take(chunk.subarray(from, at));
      this.#endLine();
      from = at + 1;
    }
    this.#take(chunk.subarray(from));
  }

  end(headers: IncomingHttpHeaders): HttpReply {
    this.#endLine();
    return { status: 200, headers, text: "" };
  }

  #take(part: Buffer): void {
    if (part.length === 0) return;
    this.#restBytes += part.length;
    if (this.#restBytes > limits.maxResponseBytes) {
      throw new TransportError("garbled", `a line has over ${limits.maxResponseBytes} bytes`);
    }
    this.#rest.push(part);
  }

  #endLine(): void {
    const [first] = this.#rest;
    if (first === undefined) return;
    const line = this.#rest.length === 1 ? first : Buffer.concat(this.#rest);
    this.#rest = [];
    this.#restBytes = 0;
    this.#onLine(line);
  }
}
