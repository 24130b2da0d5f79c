import { parentPort, workerData } from "node:worker_threads";
import { systemClock } from "../../../foundation/clock.ts";
import { SluiceError } from "../../../foundation/errors.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { arrowFormat } from "../arrow/arrow.ts";
import { parquetFormat } from "../parquet/parquet.ts";
import { unreadable } from "../unreadable.ts";
import {
  errorData,
  errorOfData,
  type FromThread,
  packed,
  type StartMessage,
  type ThreadFormat,
  type ToThread,
} from "./call.ts";

/** The thread that decodes files. It ends when it has been idle. */
const port = parentPort!;
const formats = { parquet: parquetFormat(), arrow: arrowFormat() } satisfies Record<
  ThreadFormat,
  unknown
>;
const calls = new Map<number, RunningCall>();

const own = workerData as { atWork: SharedArrayBuffer; idleMs: number };
/** What is decoded now, for the process that may end this thread: the call's number and a text. */
const atWork = Buffer.from(own.atWork);

function post(message: FromThread, memory: ArrayBuffer[] = []): void {
  port.postMessage(message, memory);
}

class RunningCall {
  readonly #start: StartMessage;
  readonly #reads = new Map<number, PromiseWithResolvers<Uint8Array>>();
  #requests = 0;
  #spare: ArrayBuffer | undefined;
  #room: number;
  #onRoom: (() => void) | undefined;
  #isStopped = false;
  #place: string;

  constructor(start: StartMessage) {
    this.#start = start;
    this.#room = start.room;
    this.#place = start.call.method === "read" ? "its pages" : "its footer";
    this.#decodingAt(this.#place);
  }

  async run(): Promise<void> {
    const { id, file } = this.#start;
    try {
      for await (const value of this.#values()) {
        while (this.#room === 0 && !this.#isStopped) await this.#moreRoom();
        if (this.#isStopped) break;
        this.#room--;
        post({ kind: "value", id, value });
      }
      post({ kind: "end", id });
    } catch (thrown) {
      if (thrown instanceof FailedRead) {
        post({ kind: "error", id, error: errorData(thrown), request: thrown.request });
      } else {
        const isNamed = thrown instanceof SluiceError;
        const error = isNamed ? thrown : unreadable(file, `it is damaged: ${String(thrown)}`);
        post({ kind: "error", id, error: errorData(error) });
      }
    }
  }

  /** Every step of decoding follows a message, so the current call is always known. */
  take(message: ToThread & { id: number }): void {
    this.#decodingAt(this.#place);
    switch (message.kind) {
      case "bytes": {
        const { request, bytes, length } = message;
        this.#settle(request)?.resolve(new Uint8Array(bytes, 0, length));
        return;
      }
      case "read-failed":
        this.#settle(message.request)?.reject(
          new FailedRead(message.request, errorOfData(message.error)),
        );
        return;
      case "stop":
        this.#isStopped = true;
        this.#onRoom?.();
        return;
      case "room":
        this.#room++;
        this.#onRoom?.();
    }
  }

  async *#values(): AsyncGenerator<unknown> {
    const { format: name, file, call, maxLineBytes } = this.#start;
    const format = formats[name];
    const reader = this.#reader();
    switch (call.method) {
      case "scan":
        return yield* format.scan(reader, file, call.rule);
      case "read": {
        const { slice, firstIndex, columns } = call;
        const onPlace = (place: string) => this.#decodingAt(place);
        const options = { maxLineBytes, columns, parse: false, onPlace };
        for await (const rows of format.read(reader, slice, firstIndex, options)) {
          yield packed(rows);
        }
        return;
      }
      case "columns":
        return yield await format.columns!(reader, file);
      case "rowCount":
        yield await format.rowCount!(reader, file);
    }
  }

  #reader(): RandomReader {
    const { bytes, readsInto } = this.#start;
    return {
      bytes,
      read: (offset, length) => this.#read(offset, length),
      ...(readsInto && {
        readInto: async (target: Uint8Array, offset: number) => {
          const spare = this.#spare;
          this.#spare = undefined;
          const read = await this.#read(offset, target.length, spare);
          target.set(read);
          this.#spare = read.buffer as ArrayBuffer;
          return read.length;
        },
      }),
      close: async () => {},
    };
  }

  #read(offset: number, length: number, spare?: ArrayBuffer): Promise<Uint8Array> {
    const { id } = this.#start;
    const request = ++this.#requests;
    const read = Promise.withResolvers<Uint8Array>();
    this.#reads.set(request, read);
    post({ kind: "read", id, request, offset, length, spare }, spare ? [spare] : []);
    return read.promise;
  }

  #settle(request: number): PromiseWithResolvers<Uint8Array> | undefined {
    const read = this.#reads.get(request);
    this.#reads.delete(request);
    return read;
  }

  #moreRoom(): Promise<void> {
    return new Promise((resolve) => {
      this.#onRoom = resolve;
    });
  }

  #decodingAt(place: string): void {
    this.#place = place;
    atWork.writeUInt32LE(this.#start.id, 0);
    atWork.writeUInt16LE(atWork.write(place, 6), 4);
  }
}

/** The file's storage failed; the process that made the call has the original error. */
class FailedRead extends SluiceError {
  readonly request: number;

  constructor(request: number, { code, message, hint, place }: SluiceError) {
    super(code, "", { hint, ...place });
    this.message = message;
    this.request = request;
  }
}

let cancelEnd = () => {};

/** After `columns` and `rowCount`, the next call comes soon or never. */
function endWhenIdle(): void {
  cancelEnd = systemClock.schedule(own.idleMs, () => port.close());
}

port.on("message", (message: ToThread) => {
  if (message.kind === "ping") return post({ kind: "pong" });
  if (message.kind !== "start") return calls.get(message.id)?.take(message);
  cancelEnd();
  const call = new RunningCall(message);
  calls.set(message.id, call);
  void call.run().finally(() => {
    calls.delete(message.id);
    if (calls.size === 0) endWhenIdle();
  });
});
post({ kind: "pong" });
