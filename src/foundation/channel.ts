import type { Readable, Writable } from "node:stream";
import { SluiceError } from "./errors.ts";
import { parseMessage } from "./exact-json.ts";
import { isJsonObject, type JsonObject } from "./json.ts";
import { limits } from "./limits.ts";

/**
 * Two ends that send each other JSON objects in order: a worker over stdio, an engine host over a
 * socket pair, or two parts of one process in a test.
 */
export interface Channel<Outgoing, Incoming> {
  send(message: Outgoing): void;
  /** Called for each message, in order; at most one listener. */
  onMessage(listener: (message: Incoming) => void): void;
  /** Called once when the other end is gone, with the reason if it is known. */
  onClose(listener: (error?: Error) => void): void;
  /** Closes this side after everything sent has been written. */
  close(): void;
}

/**
 * A channel of JSON lines over two byte streams. A line that is not a JSON object ends the channel
 * with `PROTOCOL`, as does one beyond `limits.maxMessageBytes`.
 *
 * @example
 * const channel = jsonLinesChannel(process.stdin, process.stdout);
 * channel.onMessage((message) => channel.send({ echo: message }));
 */
export function jsonLinesChannel<Outgoing, Incoming>(
  input: Readable,
  output: Writable,
): Channel<Outgoing, Incoming> {
  let deliver: (message: Incoming) => void = () => {};
  let notifyClosed: (error?: Error) => void = () => {};
  let closed = false;
  let closedBy: Error | undefined;
  const close = (error?: Error) => {
    if (closed) return;
    closed = true;
    closedBy = error;
    notifyClosed(error);
  };
  // A write to a reader that died must not end this process: the input's close reports the death.
  output.on("error", (error) => close(error));
  input.on("error", (error) => close(error));
  input.on("close", () => close());
  input.on("end", () => close());
  return {
    send(message) {
      if (output.writable) output.write(`${JSON.stringify(message)}\n`);
    },
    onMessage(listener) {
      deliver = listener;
      const pass = (message: JsonObject) => {
        if (!closed) deliver(message as Incoming);
      };
      readJsonLines(input, pass, close);
    },
    onClose(listener) {
      notifyClosed = listener;
      if (closed) listener(closedBy);
    },
    close() {
      output.end();
    },
  };
}

function readJsonLines(
  input: Readable,
  deliver: (message: JsonObject) => void,
  fail: (error: Error) => void,
): void {
  let pending = "";
  input.setEncoding("utf8");
  input.on("data", (chunk: string) => {
    let start = 0;
    for (let end = chunk.indexOf("\n"); end >= 0; end = chunk.indexOf("\n", start)) {
      const line = pending + chunk.slice(start, end);
      pending = "";
      start = end + 1;
      if (line.trim() === "") continue;
      const message = objectOfLine(line);
      if (message) deliver(message);
      else fail(new SluiceError("PROTOCOL", `no JSON object: ${line.slice(0, 200)}`));
    }
    pending += chunk.slice(start);
    if (pending.length > limits.maxMessageBytes) {
      pending = "";
      fail(new SluiceError("PROTOCOL", `a message exceeds ${limits.maxMessageBytes} bytes`));
    }
  });
}

/** The JSON object in a line; undefined if the line is not a JSON object. */
export function objectOfLine(line: string): JsonObject | undefined {
  try {
    const value = parseMessage(line);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Two ends in one process; messages arrive in a later microtask, as JSON copies. */
export function channelPair<A, B>(): [Channel<A, B>, Channel<B, A>] {
  const ends = [new LocalEnd(), new LocalEnd()] as const;
  ends[0].other = ends[1];
  ends[1].other = ends[0];
  return ends as unknown as [Channel<A, B>, Channel<B, A>];
}

class LocalEnd implements Channel<unknown, unknown> {
  other!: LocalEnd;
  #listener: ((message: unknown) => void) | undefined;
  #onClose: ((error?: Error) => void) | undefined;
  #waiting: unknown[] = [];
  #closed = false;
  #isOtherGone = false;

  send(message: unknown): void {
    if (this.#closed) return;
    const copy = parseMessage(JSON.stringify(message));
    queueMicrotask(() => this.other.#receive(copy));
  }

  onMessage(listener: (message: unknown) => void): void {
    this.#listener = listener;
    for (const message of this.#waiting.splice(0)) listener(message);
  }

  onClose(listener: (error?: Error) => void): void {
    this.#onClose = listener;
    if (this.#isOtherGone) listener();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.other.#closed = true;
    queueMicrotask(() => this.other.#notifyClosed());
  }

  #notifyClosed(): void {
    this.#isOtherGone = true;
    this.#onClose?.();
  }

  #receive(message: unknown): void {
    if (this.#listener) this.#listener(message);
    else this.#waiting.push(message);
  }
}
