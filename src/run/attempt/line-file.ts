import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { HashedFile } from "../output/hashed-file.ts";

/** Small, so that lines die young: each is several objects until they are written together. */
const flushChars = 32 * 1024;

/** While a write runs, this much may wait for the next one. */
const maxWaitingChars = limits.youngTextChars;

/** Memory of a write that is kept for the next one. */
const maxKeptBytes = 8 * maxWaitingChars;

/** Events of the file, for the code that adds lines. */
export interface LineFileListener {
  /** Called once, when a write failed: the file will not be created. */
  onFailure(error: unknown): void;
  /** Called after each write; `isFull` may have ended. */
  onDrain(): void;
}

/** A file of lines, hashed while it is written. It is created at the first write. */
export class LineFile {
  readonly #storage: Storage;
  readonly #path: string;
  readonly #listener: LineFileListener;
  readonly #written: (lines: string) => string;
  #file: HashedFile | undefined;
  #writing: Promise<void> | undefined;
  /** For the bytes of one write: new memory for each would wait for the garbage collector. */
  #memory: Buffer = Buffer.alloc(0);
  /** Lines that wait to be written. */
  #text = "";
  #isBegun = false;
  #failure: unknown;

  /** @param written makes the text of many lines what is written; it looks at none alone. */
  constructor(
    storage: Storage,
    path: string,
    listener: LineFileListener,
    written: (lines: string) => string = (lines) => lines,
  ) {
    this.#storage = storage;
    this.#path = path;
    this.#listener = listener;
    this.#written = written;
  }

  /** True if nothing was added; of an abandoned file this is unknown. */
  get isEmpty(): boolean {
    return this.#failure === undefined && !this.#isBegun && this.#text === "";
  }

  /** True while a write runs and much waits for it. */
  get isFull(): boolean {
    return this.#writing !== undefined && this.#text.length >= maxWaitingChars;
  }

  add(line: string): void {
    this.#text += `${line}\n`;
    if (this.#text.length >= flushChars) this.#startWrite();
  }

  /** Resolves when more can be added. */
  async drained(): Promise<void> {
    while (this.isFull) await this.#writing;
  }

  /**
   * Writes the rest; then the whole file appears.
   *
   * @throws errors of a write, and SluiceError `STORE_FAILED` if the file was abandoned meanwhile.
   */
  async close(): Promise<FileRecord> {
    while (this.#writing) await this.#writing;
    this.#file ??= await HashedFile.open(this.#storage, this.#path);
    this.#startWrite();
    await this.#writing;
    if (this.#failure !== undefined) throw this.#failure;
    return await this.#file.close();
  }

  /** Abandons the file: nothing appears, even if it is being closed. */
  async abort(): Promise<void> {
    this.#failure ??= new SluiceError("STORE_FAILED", "it was given up", { file: this.#path });
    this.#text = "";
    while (this.#writing) await this.#writing;
    await this.#file?.abort();
  }

  #startWrite(): void {
    if (this.#writing || this.#failure !== undefined || this.#text === "") return;
    const data = this.#encoded(this.#written(this.#text));
    this.#text = "";
    this.#isBegun = true;
    this.#writing = this.#write(data).finally(() => {
      this.#writing = undefined;
      if (this.#text.length >= flushChars) this.#startWrite();
      this.#listener.onDrain();
    });
  }

  /** The text's bytes, valid until the next write: a writer is done with what it has written. */
  #encoded(text: string): Uint8Array {
    // The most bytes of a character.
    const mostBytes = 3 * text.length;
    if (mostBytes > maxKeptBytes) return Buffer.from(text);
    if (this.#memory.length < mostBytes) this.#memory = Buffer.allocUnsafeSlow(mostBytes);
    return this.#memory.subarray(0, this.#memory.write(text));
  }

  async #write(data: Uint8Array): Promise<void> {
    try {
      this.#file ??= await HashedFile.open(this.#storage, this.#path);
      await this.#file.write(data);
    } catch (error) {
      this.#failure = error;
      this.#listener.onFailure(error);
    }
  }
}
