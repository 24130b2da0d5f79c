import { Worker } from "node:worker_threads";
import { entryUrl } from "../../../entry.ts";
import { systemClock } from "../../../foundation/clock.ts";
import { asSluiceError } from "../../../foundation/errors.ts";
import { limits } from "../../../foundation/limits.ts";
import type { RandomReader } from "../../storage/storage.ts";
import { unreadable } from "../unreadable.ts";
import {
  errorData,
  errorOfData,
  type FromThread,
  type ReadMessage,
  type StartMessage,
  type ToThread,
} from "./call.ts";

/** How long the thread stays when it has nothing to decode. */
const decodingThreadIdleMs = 5000;

/** Values that the thread makes ahead of the reader. */
const valuesAhead = 3;
/** Times that a call begins again after the thread ended because of another file. */
const maxRestarts = 2;
/** Checks in a row without a message from the thread, after which it is ended. */
const maxMisses = 3;

const hint = "get the file again, leave columns out by input.columns, or write smaller row groups";

/** Limits of the thread: time and memory of a step, and idle time. Only tests set others. */
export interface DecodingLimits {
  maxStepMs: number;
  maxHeapMegabytes: number;
  idleMs: number;
}

/** A call without the fields that `DecodingThread` adds. */
export type CallStart = Omit<StartMessage, "kind" | "id" | "bytes" | "readsInto" | "room">;

/**
 * The thread in which a process decodes files. One byte of a file can make a library loop for ever
 * or take all memory. Then the thread is ended, the error names the file that was decoded, and the
 * calls for other files continue in a new thread. The first call starts it. It keeps no process
 * alive that is not waiting for a call.
 */
export class DecodingThread {
  readonly #limits: DecodingLimits;
  readonly #calls = new Map<number, PendingCall>();
  #worker: Worker | undefined;
  /**
   * The current call and its place in the file. The thread writes it, because a busy thread answers
   * no message.
   */
  #atWork: Buffer = Buffer.alloc(0);
  #why: string | undefined;
  #ids = 0;
  #misses = 0;
  #isReady = false;
  #stopWatch = () => {};

  constructor(
    own: DecodingLimits = {
      maxStepMs: limits.maxDecodingStepMs,
      maxHeapMegabytes: limits.maxDecodingHeapMegabytes,
      idleMs: decodingThreadIdleMs,
    },
  ) {
    this.#limits = own;
  }

  /**
   * The values of a call, some made ahead.
   *
   * @throws the errors of reading; SluiceError `INPUT_UNREADABLE`, also if a step takes too much
   *   time or memory.
   */
  async *values(reader: RandomReader, start: CallStart): AsyncGenerator<unknown> {
    const call = new PendingCall(reader, {
      ...start,
      kind: "start",
      id: ++this.#ids,
      bytes: reader.bytes,
      readsInto: reader.readInto !== undefined,
      room: valuesAhead,
    });
    this.#begin(call);
    try {
      for (let next = await call.next(); next; next = await call.next()) {
        yield next.value;
        this.#post({ kind: "room", id: call.id });
      }
    } finally {
      call.isLeft = true;
      if (!call.isOver) this.#post({ kind: "stop", id: call.id });
      // The thread may use the reader until it has heard that the call is over.
      await call.over;
      this.#calls.delete(call.id);
      if (this.#calls.size === 0) {
        this.#stopWatch();
        this.#worker?.unref();
      }
    }
  }

  #begin(call: PendingCall): void {
    this.#worker ??= this.#open();
    if (this.#calls.size === 0) {
      this.#worker.ref();
      this.#misses = 0;
      this.#watch();
    }
    this.#calls.set(call.id, call);
    this.#post(call.start);
  }

  #open(): Worker {
    const atWork = new SharedArrayBuffer(1024);
    this.#atWork = Buffer.from(atWork);
    this.#isReady = false;
    const worker = new Worker(entryUrl("data/formats/decoding-thread/thread-main"), {
      workerData: { atWork, idleMs: this.#limits.idleMs },
      execArgv: [],
      resourceLimits: {
        maxOldGenerationSizeMb: this.#limits.maxHeapMegabytes,
        maxYoungGenerationSizeMb: limits.maxYoungSpaceMegabytes,
      },
    });
    worker.on("message", (message: FromThread) => this.#take(worker, message));
    worker.on("error", (error: NodeJS.ErrnoException) => {
      const isMemory = error.code === "ERR_WORKER_OUT_OF_MEMORY";
      const memory = `it takes more than ${this.#limits.maxHeapMegabytes} MB of memory to decode`;
      this.#why = isMemory ? memory : `what decodes it ended: ${error.message}`;
    });
    worker.on("exit", () => this.#ended());
    return worker;
  }

  #post(message: ToThread, memory: ArrayBuffer[] = []): void {
    this.#worker?.postMessage(message, memory);
  }

  #take(worker: Worker, message: FromThread): void {
    this.#misses = 0;
    this.#isReady = true;
    if (message.kind === "pong") return;
    const call = this.#calls.get(message.id);
    if (!call) return;
    switch (message.kind) {
      case "read":
        void this.#read(worker, call, message);
        return;
      case "value":
        if (!call.give(message.value)) this.#post({ kind: "room", id: call.id });
        return;
      case "end":
        return call.end();
      case "error": {
        const { request = 0, error } = message;
        call.end(call.readFaults.get(request) ?? errorOfData(error));
      }
    }
  }

  async #read(worker: Worker, call: PendingCall, read: ReadMessage): Promise<void> {
    const { id, request } = read;
    const post = (message: ToThread, memory: ArrayBuffer[] = []) => {
      if (worker === this.#worker) this.#post(message, memory);
    };
    try {
      const { memory, length } = await bytesOf(call.reader, read);
      post({ kind: "bytes", id, request, bytes: memory, length }, [memory]);
    } catch (thrown) {
      call.readFaults.set(request, thrown);
      post({ kind: "read-failed", id, request, error: errorData(asSluiceError(thrown)) });
    }
  }

  /** If the process itself was held up, messages are found only after a check that missed them. */
  #watch(): void {
    this.#stopWatch = systemClock.schedule(this.#limits.maxStepMs / maxMisses, () => {
      if (this.#isReady && ++this.#misses > maxMisses) {
        this.#why = `it takes more than ${this.#limits.maxStepMs / 1000} s to decode`;
        void this.#worker?.terminate();
        return;
      }
      this.#post({ kind: "ping" });
      this.#watch();
    });
  }

  /** The thread was idle, was ended here, or ran out of memory. */
  #ended(): void {
    const culprit = this.#why === undefined ? 0 : this.#atWork.readUInt32LE(0);
    const place = this.#atWork.toString("utf8", 6, 6 + this.#atWork.readUInt16LE(4));
    const why = this.#why ?? "what decodes it ended";
    this.#why = undefined;
    this.#worker = undefined;
    this.#stopWatch();
    const calls = [...this.#calls.values()].filter((call) => !call.isOver);
    this.#calls.clear();
    for (const call of calls) {
      const isBlamed = call.id === culprit || call.restarts === maxRestarts;
      if (isBlamed) call.end(unreadable(call.start.file, `${place}: ${why}`, { hint }));
      else if (call.isLeft) call.end();
      else {
        call.restart();
        this.#begin(call);
      }
    }
  }
}

async function bytesOf(
  reader: RandomReader,
  { offset, length, spare }: ReadMessage,
): Promise<{ memory: ArrayBuffer; length: number }> {
  if (reader.readInto) {
    const memory = spare && spare.byteLength >= length ? spare : new ArrayBuffer(length);
    const read = await reader.readInto(new Uint8Array(memory, 0, length), offset);
    return { memory, length: read };
  }
  const bytes = await reader.read(offset, length);
  // A copy, because the storage may reuse its memory.
  const memory = new ArrayBuffer(bytes.length);
  new Uint8Array(memory).set(bytes);
  return { memory, length: bytes.length };
}

/** This side of a call: values that wait for the reader, and how the call ended. */
class PendingCall {
  readonly start: StartMessage;
  readonly reader: RandomReader;
  /** Errors of the reader by request: those that the thread sends back lack their causes. */
  readonly readFaults = new Map<number, unknown>();
  restarts = 0;
  isOver = false;
  /** True if nobody takes further values. */
  isLeft = false;
  readonly #over = Promise.withResolvers<void>();
  readonly #values: unknown[] = [];
  #given = 0;
  /** Values to drop because they were given before the call began again. */
  #again = 0;
  #fault: { error: unknown } | undefined;
  #wake = () => {};

  constructor(reader: RandomReader, start: StartMessage) {
    this.reader = reader;
    this.start = start;
  }

  get over(): Promise<void> {
    return this.#over.promise;
  }

  get id(): number {
    return this.start.id;
  }

  async next(): Promise<{ value: unknown } | undefined> {
    while (this.#values.length === 0 && !this.isOver) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#values.length > 0) return { value: this.#values.shift() };
    if (this.#fault) throw this.#fault.error;
    return undefined;
  }

  /** @returns false if the value was given before. */
  give(value: unknown): boolean {
    if (this.#again > 0) {
      this.#again--;
      return false;
    }
    this.#given++;
    this.#values.push(value);
    this.#wake();
    return true;
  }

  end(error?: unknown): void {
    if (error !== undefined) this.#fault = { error };
    this.isOver = true;
    this.#over.resolve();
    this.#wake();
  }

  restart(): void {
    this.restarts++;
    this.#again = this.#given;
    this.readFaults.clear();
  }
}
