import type { Appender, Storage } from "../../data/storage/storage.ts";
import type { Clock } from "../../foundation/clock.ts";
import { linesOf } from "../directory/lines.ts";
import { type JournalLine, parseJournalLine } from "./journal-line.ts";

/** The journal's buffer is written when it holds this much, … */
export const maxJournalBufferBytes = 64 * 1024;

/** … or is this old. */
export const maxJournalBufferMs = 2;

/** The journal is synced to disk at least this often while rows finish. */
export const journalSyncIntervalMs = 1000;

/** The place of an answer, or of a whole line, in a journal. */
export interface JournalPlace {
  offset: number;
  bytes: number;
}

export interface JournalListener {
  /** Called once, when a write failed: the attempt is over then. */
  onFailure(error: unknown): void;
  /** Called after each write; `isFull` may have ended. */
  onDrain(): void;
}

interface JournalOptions extends JournalListener {
  /** Places of answers cover their whole lines, for joins that also need the requests. */
  wholeLines: boolean;
}

export interface JournalEntry {
  line: JournalLine;
  text: string;
}

/**
 * Appends an attempt's lines. A line stays in memory for at most `maxJournalBufferMs` or
 * `maxJournalBufferBytes`. Written lines survive a killed process, synced lines a power loss.
 */
export class JournalWriter {
  readonly #appender: Appender;
  readonly #clock: Clock;
  readonly #onFailure: (error: unknown) => void;
  readonly #onDrain: () => void;
  /** Places of answers cover their whole lines. */
  readonly wholeLines: boolean;
  /** Lines that were not written yet, and their bytes. */
  #text = "";
  #pendingBytes = 0;
  #flushedBytes = 0;
  #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  #writing: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  #lastSyncMs: number;
  /** True if a power loss could take something that was written. */
  #isUnsynced = false;
  #cancelSync: (() => void) | undefined;
  #failure: unknown;

  private constructor(appender: Appender, clock: Clock, options: JournalOptions) {
    this.#appender = appender;
    this.#clock = clock;
    this.#onFailure = options.onFailure;
    this.#onDrain = options.onDrain;
    this.wholeLines = options.wholeLines;
    this.#lastSyncMs = clock.monotonic();
  }

  static async open(
    storage: Storage,
    path: string,
    clock: Clock,
    options: JournalOptions,
  ): Promise<JournalWriter> {
    // Its path contains the attempt's id, so no other attempt writes it.
    const appender = await storage.appender(path, { isNew: true });
    return new JournalWriter(appender, clock, options);
  }

  /** True while too much waits to be written. */
  get isFull(): boolean {
    return this.#queuedBytes > maxJournalBufferBytes * 16;
  }

  /**
   * Appends a line whose last member is `answerJson`; returns the answer's future place. `head` is
   * ASCII, and with `isAscii` the answer as well.
   */
  appendAnswer(head: string, answerJson: string, isAscii = false): JournalPlace {
    const offset = this.#flushedBytes + this.#pendingBytes;
    const bytes = isAscii ? answerJson.length : byteLength(answerJson);
    this.#text += `${head}${answerJson}}\n`;
    this.#pendingBytes += head.length + bytes + 2;
    this.#afterPut();
    if (this.wholeLines) return { offset, bytes: head.length + bytes + 1 };
    return { offset: offset + head.length, bytes };
  }

  /** Appends a whole line; returns its future place. */
  append(line: JournalLine): JournalPlace {
    const offset = this.#flushedBytes + this.#pendingBytes;
    const text = JSON.stringify(line);
    const bytes = byteLength(text);
    this.#text += `${text}\n`;
    this.#pendingBytes += bytes + 1;
    this.#afterPut();
    return { offset, bytes };
  }

  /** Resolves when every line so far is written. */
  async flush(): Promise<void> {
    this.#startWrite();
    while (this.#writing) await this.#writing;
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Resolves when every line so far survives a power loss. */
  async sync(): Promise<void> {
    await this.flush();
    await this.#appender.sync();
  }

  /**
   * @param options `isNeeded: false`: the file will not be read, because a commit holds all of it.
   */
  async close(options?: { isNeeded: boolean }): Promise<void> {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    await this.flush().catch(() => {});
    this.#cancelSync?.();
    await this.#appender.close(options);
  }

  // One encoding of many lines costs far less than many of one.
  #turnOver(): void {
    const isOneByte = this.#pendingBytes === this.#text.length;
    const data = Buffer.from(this.#text, isOneByte ? "latin1" : "utf8");
    this.#queue.push(data);
    this.#queuedBytes += data.length;
    this.#flushedBytes += data.length;
    this.#text = "";
    this.#pendingBytes = 0;
  }

  #afterPut(): void {
    if (this.#pendingBytes >= maxJournalBufferBytes) {
      this.#startWrite();
    } else if (!this.#cancelTimer && !this.#writing) {
      this.#cancelTimer = this.#clock.schedule(maxJournalBufferMs, () => {
        this.#cancelTimer = undefined;
        this.#startWrite();
      });
    }
  }

  #startWrite(): void {
    if (this.#text !== "") this.#turnOver();
    if (this.#writing || this.#failure !== undefined) return;
    if (this.#queue.length === 0 && this.#syncInMs() > 0) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#writing = this.#drain().finally(() => {
      this.#writing = undefined;
      // Lines may have arrived during the sync.
      if (this.#queue.length > 0) this.#startWrite();
      else if (this.#text !== "") this.#afterPut();
      this.#syncLater();
      this.#onDrain();
    });
  }

  async #drain(): Promise<void> {
    try {
      while (this.#queue.length > 0) {
        const data = this.#queue.length === 1 ? this.#queue[0]! : Buffer.concat(this.#queue);
        this.#queue = [];
        await this.#appender.append(data);
        this.#queuedBytes -= data.length;
        this.#isUnsynced = true;
        await this.#syncIfDue();
      }
      await this.#syncIfDue();
    } catch (error) {
      this.#failure = error;
      this.#queue = [];
      this.#onFailure(error);
    }
  }

  /** Milliseconds until the next sync; infinite if there is nothing to sync. */
  #syncInMs(): number {
    if (!this.#isUnsynced) return Infinity;
    return this.#lastSyncMs + journalSyncIntervalMs - this.#clock.monotonic();
  }

  async #syncIfDue(): Promise<void> {
    if (this.#syncInMs() > 0) return;
    await this.#appender.sync();
    this.#isUnsynced = false;
    this.#lastSyncMs = this.#clock.monotonic();
  }

  // The last rows before a long pause must not wait for the next ones.
  #syncLater(): void {
    const delayMs = this.#syncInMs();
    if (this.#cancelSync || delayMs === Infinity || this.#failure !== undefined) return;
    this.#cancelSync = this.#clock.schedule(delayMs, () => {
      this.#cancelSync = undefined;
      this.#startWrite();
      if (!this.#writing) this.#syncLater();
    });
  }
}

/** Bytes of a text in UTF-8; most texts are ASCII, which one check finds. */
function byteLength(text: string): number {
  return nonAscii.test(text) ? Buffer.byteLength(text) : text.length;
}

const nonAscii = /[\u0080-\uffff]/;

/**
 * Reads a journal's lines in order. A torn line ends it: a killed writer's half line, and anything
 * after it, does not count.
 */
export async function* readJournal(storage: Storage, path: string): AsyncGenerator<JournalEntry> {
  const reader = await storage.open(path);
  try {
    for await (const { text, endsInNewline } of linesOf(reader)) {
      const line = parseJournalLine(text, endsInNewline);
      if (!line) return;
      yield { line, text };
    }
  } finally {
    await reader.close();
  }
}
