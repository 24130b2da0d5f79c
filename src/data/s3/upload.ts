import { limits } from "../../foundation/limits.ts";
import { SerialQueue } from "../storage/serial-queue.ts";
import type { Writer } from "../storage/storage.ts";
import type { BegunUpload, UploadedPart } from "./requests.ts";

/** Parts of one object that are uploaded at once. */
export const storePartsAtOnce = 3;

/** The requests that a writer needs of its bucket; the bucket tries them again. */
export interface UploadSteps {
  /** Creates the whole object in one request. */
  put(data: Uint8Array): Promise<void>;
  begin(): Promise<string>;
  putPart(uploadId: string, number: number, data: Uint8Array): Promise<UploadedPart>;
  complete(uploadId: string, parts: readonly UploadedPart[]): Promise<void>;
  abort(uploadId: string): Promise<void>;
}

/** What is known of an object before it is written. */
export interface KnownUpload {
  /** An upload to continue after its parts. */
  begun?: BegunUpload | undefined;
  /** The object's size. If set, all parts but the last have equal size, as some stores demand. */
  bytes?: number;
}

const maxParts = 10_000;
/** After this many parts, the part size doubles, so that an object may have 5 TB. */
const partsOfOneSize = 1000;

/**
 * Writes one object: a small one in one request, a larger one in parts. Several parts are uploaded
 * at once while more is written.
 */
export class Upload implements Writer {
  readonly #steps: UploadSteps;
  readonly #queue = new SerialQueue();
  #pieces: Uint8Array[] = [];
  #pieceBytes = 0;
  #uploadId: string | undefined;
  #partsBegun: number;
  readonly #parts: UploadedPart[];
  readonly #underWay = new Set<Promise<void>>();
  readonly #partBytesOfKnown: number | undefined;
  #hasEnded = false;

  constructor(steps: UploadSteps, { begun, bytes }: KnownUpload = {}) {
    this.#steps = steps;
    this.#partBytesOfKnown = bytes === undefined ? undefined : partBytesFor(bytes);
    this.#uploadId = begun?.uploadId;
    this.#parts = [...(begun?.parts ?? [])];
    this.#partsBegun = this.#parts.length;
  }

  write(data: Uint8Array): Promise<void> {
    // The caller may reuse its bytes.
    const copy = Buffer.from(data);
    return this.#queue.run(async () => {
      this.#pieces.push(copy);
      this.#pieceBytes += copy.length;
      if (this.#pieceBytes >= this.#partBytes) await this.#beginPart();
    });
  }

  async close(): Promise<void> {
    try {
      await this.#queue.run(() => this.#finish());
      this.#hasEnded = true;
    } catch (error) {
      await this.abort();
      throw error;
    }
  }

  async abort(): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    await this.#queue.run(async () => {}).catch(() => {});
    await Promise.allSettled(this.#underWay);
    this.#pieces = [];
    // The caller has failed already; a second error would hide the first.
    if (this.#uploadId !== undefined) await this.#steps.abort(this.#uploadId).catch(() => {});
  }

  get #partBytes(): number {
    const doublings = Math.floor(this.#partsBegun / partsOfOneSize);
    return this.#partBytesOfKnown ?? limits.storePartBytes * 2 ** doublings;
  }

  async #finish(): Promise<void> {
    if (this.#uploadId === undefined) return await this.#steps.put(this.#taken());
    if (this.#pieceBytes > 0) await this.#beginPart();
    await Promise.all(this.#underWay);
    const parts = this.#parts.toSorted((a, b) => a.number - b.number);
    await this.#steps.complete(this.#uploadId, parts);
  }

  async #beginPart(): Promise<void> {
    this.#uploadId ??= await this.#steps.begin();
    while (this.#underWay.size >= storePartsAtOnce) await Promise.race(this.#underWay);
    const number = ++this.#partsBegun;
    const sending = this.#steps.putPart(this.#uploadId, number, this.#taken()).then((part) => {
      this.#parts.push(part);
      this.#underWay.delete(sending);
    });
    // A failure is reported by the next part, or at the end.
    sending.catch(() => {});
    this.#underWay.add(sending);
  }

  #taken(): Uint8Array {
    const data = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#pieceBytes = 0;
    return data;
  }
}

/** The least part size that keeps an object of this size within the most parts. */
function partBytesFor(bytes: number): number {
  let partBytes = limits.storePartBytes;
  while (bytes > partBytes * maxParts) partBytes *= 2;
  return partBytes;
}
