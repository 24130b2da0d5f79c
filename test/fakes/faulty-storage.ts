import type {
  Appender,
  RandomReader,
  Storage,
  StoredFile,
  Writer,
} from "../../src/data/storage/storage.ts";
import { sleep } from "../../src/foundation/clock.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import type { SimulatedProcess } from "./simulated-process.ts";

/** One call of a storage, or of a reader, appender or writer that it gave. */
export interface StorageCall {
  method: keyof Omit<Storage, "location"> | "append" | "sync" | "write" | "close" | "abort";
  path: string;
}

/** How a call goes wrong. */
export type StorageFault =
  /** Nothing is done, and the caller gets this error. */
  | { kind: "refuse"; code: "STORE_FAILED" | "STORE_FULL" }
  /** It is done; the caller hears an error, `"unclear"`, or `"exists"` for its own success. */
  | { kind: "lose-reply"; reply: "error" | "unclear" | "exists" }
  /** A create that does nothing and is answered by `"unclear"`. */
  | { kind: "conflict" }
  /** It is carried out later, whatever becomes of the caller, who hears no clear word of it. */
  | { kind: "late"; delayMs: number }
  /** An append of which only this share of the bytes is written. */
  | { kind: "tear"; share: number; code: "STORE_FAILED" | "STORE_FULL" };

/** What befalls one call. */
export interface StorageVisit {
  fault?: StorageFault | undefined;
  /** Milliseconds that pass before the call has its effect. */
  beforeMs?: number;
  /** Milliseconds that pass before the caller hears of it. */
  afterMs?: number;
  /** Called right after the effect, before the caller hears: the place for a kill. */
  onEffect?(): void;
}

/** Decides what befalls a call; undefined = it goes as it should, at once. */
export type VisitStorage = (call: StorageCall) => StorageVisit | undefined;

/**
 * A storage as one process sees it, with the faults that `visit` decides. Calls of a killed process
 * have no effect and never end.
 *
 * @param process whose storage it is.
 * @example
 * const full: StorageVisit = { fault: { kind: "refuse", code: "STORE_FULL" } };
 * const storage = faultyStorage(memoryStorage(), process, ({ method }) =>
 *   method === "append" ? full : undefined,
 * );
 */
export function faultyStorage(
  inner: Storage,
  process: SimulatedProcess,
  visit: VisitStorage,
): Storage {
  return new FaultyStorage(inner, process, visit);
}

class FaultyStorage implements Storage {
  readonly #inner: Storage;
  readonly #process: SimulatedProcess;
  readonly #visit: VisitStorage;

  constructor(inner: Storage, process: SimulatedProcess, visit: VisitStorage) {
    this.#inner = inner;
    this.#process = process;
    this.#visit = visit;
  }

  get location(): string {
    return this.#inner.location;
  }

  read(path: string): Promise<Uint8Array> {
    return this.#perform({ method: "read", path }, () => this.#inner.read(path));
  }

  async open(path: string): Promise<RandomReader> {
    const reader = await this.#perform({ method: "open", path }, () => this.#inner.open(path));
    return {
      bytes: reader.bytes,
      read: (offset, length) =>
        this.#perform({ method: "read", path }, () => reader.read(offset, length)),
      close: () => reader.close(),
    };
  }

  stat(path: string): Promise<StoredFile | undefined> {
    return this.#perform({ method: "stat", path }, () => this.#inner.stat(path));
  }

  async *list(prefix: string): AsyncIterable<StoredFile> {
    yield* await this.#perform({ method: "list", path: prefix }, () =>
      Array.fromAsync(this.#inner.list(prefix)),
    );
  }

  createIfAbsent(path: string, data: Uint8Array): Promise<"created" | "exists" | "unclear"> {
    const call: StorageCall = { method: "createIfAbsent", path };
    return this.#perform(
      call,
      () => this.#inner.createIfAbsent(path, data),
      (reply) => reply,
    );
  }

  replace(path: string, data: Uint8Array): Promise<void> {
    return this.#perform({ method: "replace", path }, () => this.#inner.replace(path, data));
  }

  async appender(path: string, options?: { isNew?: boolean }): Promise<Appender> {
    const call: StorageCall = { method: "appender", path };
    const appender = await this.#perform(call, () => this.#inner.appender(path, options));
    return {
      append: (data) =>
        this.#perform({ method: "append", path }, (share) =>
          appender.append(data.subarray(0, Math.floor(data.length * share))),
        ),
      sync: () => this.#perform({ method: "sync", path }, () => appender.sync()),
      close: (end) => this.#perform({ method: "close", path }, () => appender.close(end)),
    };
  }

  async writer(path: string): Promise<Writer> {
    const writer = await this.#perform({ method: "writer", path }, () => this.#inner.writer(path));
    return {
      write: (data) => this.#perform({ method: "write", path }, () => writer.write(data)),
      close: () => this.#perform({ method: "close", path }, () => writer.close()),
      abort: () => this.#perform({ method: "abort", path }, () => writer.abort()),
    };
  }

  publish(from: string, to: string): Promise<void> {
    return this.#perform({ method: "publish", path: to }, () => this.#inner.publish(from, to));
  }

  remove(path: string): Promise<void> {
    return this.#perform({ method: "remove", path }, () => this.#inner.remove(path));
  }

  async #perform<T>(
    call: StorageCall,
    effect: (share: number) => Promise<T>,
    asReply?: (reply: "exists" | "unclear") => T,
  ): Promise<T> {
    const process = this.#process;
    while (process.state !== "running") await process.alive();
    const { fault, beforeMs = 0, afterMs = 0, onEffect } = this.#visit(call) ?? {};
    if (beforeMs > 0) await sleep(process.clock, beforeMs);
    while (process.state !== "running") await process.alive();
    const failed = (code: FaultCode) => new SluiceError(code, "simulated", { file: call.path });
    if (fault?.kind === "refuse") throw failed(fault.code);
    if (fault?.kind === "conflict" && asReply) return asReply("unclear");
    if (fault?.kind === "late") {
      process.outsideClock.schedule(fault.delayMs, () => void effect(1).catch(() => {}));
      if (asReply) return asReply("unclear");
      throw failed("STORE_FAILED");
    }
    const result = await effect(fault?.kind === "tear" ? fault.share : 1);
    onEffect?.();
    if (afterMs > 0) await sleep(process.clock, afterMs);
    while (process.state !== "running") await process.alive();
    if (fault?.kind === "tear") throw failed(fault.code);
    if (fault?.kind !== "lose-reply") return result;
    if (fault.reply === "error" || !asReply) throw failed("STORE_FAILED");
    return asReply(fault.reply);
  }
}

type FaultCode = "STORE_FAILED" | "STORE_FULL";
