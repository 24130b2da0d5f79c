import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { HashedFile } from "../output/hashed-file.ts";
import type { PlannedFile } from "../plan/plan.ts";

/** Little enough that lines die young: each lives as several objects until it is written. */
const flushChars = 128 * 1024;

/** Memory of a write that is kept for the next one. */
const maxKeptBytes = 8 * flushChars;

/** What whoever adds lines wants to know of the file. */
export interface LineFileListener {
  /** Called once, when a write failed: the file will not come about. */
  onFailure(error: unknown): void;
  /** Called after each write; `isFull` may have ended. */
  onDrain(): void;
}

/** A file of lines that is hashed while it is written. Nothing is made before the first write. */
export class LineFile {
  readonly #storage: Storage;
  readonly #path: string;
  readonly #listener: LineFileListener;
  #file: HashedFile | undefined;
  #writing: Promise<void> | undefined;
  /** For the bytes of one write: memory of its own for each would wait for the collector. */
  #memory: Buffer = Buffer.alloc(0);
  #lines: string[] = [];
  #chars = 0;
  #isBegun = false;
  #failure: unknown;

  constructor(storage: Storage, path: string, listener: LineFileListener) {
    this.#storage = storage;
    this.#path = path;
    this.#listener = listener;
  }

  /** True where nothing was added; of a file that was given up nobody can tell. */
  get isEmpty(): boolean {
    return this.#failure === undefined && !this.#isBegun && this.#lines.length === 0;
  }

  /** True while a write goes on and as much again waits for it. */
  get isFull(): boolean {
    return this.#writing !== undefined && this.#chars >= flushChars;
  }

  add(line: string): void {
    this.#lines.push(line);
    this.#chars += line.length;
    if (this.#chars >= flushChars) this.#startWrite();
  }

  /** Resolves when more can be added. */
  async drained(): Promise<void> {
    while (this.isFull) await this.#writing;
  }

  /**
   * Writes what is left; the file appears, whole.
   *
   * @throws what a write threw, and SluiceError `STORE_FAILED` where it was given up meanwhile.
   */
  async close(): Promise<PlannedFile> {
    while (this.#writing) await this.#writing;
    this.#file ??= await HashedFile.open(this.#storage, this.#path);
    this.#startWrite();
    await this.#writing;
    if (this.#failure !== undefined) throw this.#failure;
    return await this.#file.close();
  }

  /** Gives up: nothing appears, whoever is about to close it. */
  async abort(): Promise<void> {
    this.#failure ??= new SluiceError("STORE_FAILED", "it was given up", { file: this.#path });
    this.#lines = [];
    this.#chars = 0;
    while (this.#writing) await this.#writing;
    await this.#file?.abort();
  }

  #startWrite(): void {
    if (this.#writing || this.#failure !== undefined || this.#lines.length === 0) return;
    const data = this.#encoded(`${this.#lines.join("\n")}\n`);
    this.#lines = [];
    this.#chars = 0;
    this.#isBegun = true;
    this.#writing = this.#write(data).finally(() => {
      this.#writing = undefined;
      if (this.#chars >= flushChars) this.#startWrite();
      this.#listener.onDrain();
    });
  }

  /** Its bytes, which are good until the next write: a writer has done with what it has written. */
  #encoded(text: string): Uint8Array {
    // No character takes more.
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
