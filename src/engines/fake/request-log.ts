import { closeSync, openSync, writeSync } from "node:fs";
import { SluiceError } from "../../foundation/errors.ts";
import { type InferenceRequest, noOrigin } from "../../foundation/inference.ts";

const maxBufferedLines = 256;

/**
 * The file in which the fake engine counts its requests: a line `index promptName element` for
 * each, `-` without an element. Many processes may append to one file. Lines of one microtask turn
 * are written together, always before their answers can be seen, so that no `kill -9` loses an
 * answered request.
 */
export class RequestLog {
  readonly #path: string;
  readonly #file: number;
  #lines: string[] = [];
  #failure: SluiceError | undefined;
  #isClosed = false;

  /** @throws SluiceError `ENGINE_START_FAILED` if the file cannot be opened for appending. */
  constructor(path: string) {
    this.#path = path;
    try {
      this.#file = openSync(path, "a");
    } catch (cause) {
      const detail = `model.countFile: ${(cause as Error).message}`;
      throw new SluiceError("ENGINE_START_FAILED", detail, { cause, file: path });
    }
  }

  /** Records a request. It is written before any microtask that is queued after this call. */
  record({ origin = noOrigin }: InferenceRequest): void {
    const { index, promptName, element } = origin;
    if (this.#lines.length === 0) queueMicrotask(() => this.#write());
    this.#lines.push(`${index} ${promptName} ${element ?? "-"}\n`);
    if (this.#lines.length >= maxBufferedLines) this.#write();
  }

  /**
   * Makes sure that every recorded request is in the file.
   *
   * @throws SluiceError `STORE_FAILED` if the file could not be written, now or before.
   */
  flush(): void {
    this.#write();
    if (this.#failure) throw this.#failure;
  }

  /** Writes the recorded requests and closes the file. */
  close(): void {
    if (this.#isClosed) return;
    this.#write();
    this.#isClosed = true;
    closeSync(this.#file);
  }

  #write(): void {
    if (this.#lines.length === 0 || this.#isClosed) return;
    const bytes = Buffer.from(this.#lines.join(""));
    this.#lines = [];
    try {
      for (let written = 0; written < bytes.length; ) {
        written += writeSync(this.#file, bytes, written);
      }
    } catch (cause) {
      // Kept for `flush`: thrown here, in a microtask of its own, it would end the process.
      const detail = (cause as Error).message;
      this.#failure = new SluiceError("STORE_FAILED", detail, { cause, file: this.#path });
    }
  }
}
