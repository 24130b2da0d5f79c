import { SluiceError } from "../../../foundation/errors.ts";
import { sha256Hex } from "../../../foundation/hashing.ts";
import type { InferenceRequest } from "../../../foundation/inference.ts";
import type { JsonObject } from "../../../foundation/json.ts";
import type { Abortable, AbortWatch } from "../../abort-watch.ts";
import type { Answered } from "../call.ts";
import { readAnswers } from "../reply.ts";
import { readVector } from "../vectors.ts";

/** Paths of the requests that a batch can hold. */
const urls = {
  chat: "/v1/chat/completions",
  completion: "/v1/completions",
  embedding: "/v1/embeddings",
} as const;

const idDigits = 16;

interface PendingOptions {
  request: InferenceRequest;
  signal: AbortSignal;
  watch: AbortWatch;
  /** The request's JSON, made anew each time: memory does not hold it. */
  body(): string | Promise<string>;
}

/** A request between its coming and its answer: collected, or in a batch at the provider. */
export class PendingRequest implements Abortable {
  /** The same for the same request of a row in every process: the row, and a digest. */
  readonly id: string;
  readonly url: string;
  /** Bytes of its line, with its end. */
  readonly bytes: number;
  /** Called when nobody waits for its answer any more, by its present holder. */
  onGone: () => void = () => {};
  watchedPlace?: number;
  isSettled = false;
  readonly #options: PendingOptions;
  readonly #answer = Promise.withResolvers<Answered>();
  readonly #form: keyof typeof urls;

  private constructor(options: PendingOptions, body: string) {
    const { request, signal, watch } = options;
    const { index = 0, promptName = "", element = "" } = request.origin ?? {};
    const { embed, messages } = request;
    this.#options = options;
    this.#form = embed ? "embedding" : messages === undefined ? "completion" : "chat";
    this.url = urls[this.#form];
    const digest = sha256Hex(`${this.url} ${promptName} ${element} ${body}`);
    this.id = `${index}-${digest.slice(0, idDigits)}`;
    this.bytes = Buffer.byteLength(this.#line(body));
    watch.add(signal, this);
  }

  get answer(): Promise<Answered> {
    return this.#answer.promise;
  }

  static async of(options: PendingOptions): Promise<PendingRequest> {
    return new PendingRequest(options, await options.body());
  }

  /** Its line of a batch file. */
  async line(): Promise<Buffer> {
    return Buffer.from(this.#line(await this.#options.body()));
  }

  /** Takes the body of a good reply. */
  take(body: JsonObject): void {
    try {
      const { parameters } = this.#options.request;
      this.#settle();
      this.#answer.resolve(
        this.#form === "embedding" ? readVector(body) : readAnswers(body, this.#form, parameters),
      );
    } catch (error) {
      this.#answer.reject(error);
    }
  }

  fail(error: SluiceError): void {
    this.#settle();
    this.#answer.reject(error);
  }

  abort(reason: unknown): void {
    this.#settle();
    this.#answer.reject(reason);
    this.onGone();
  }

  #settle(): void {
    this.isSettled = true;
    this.#options.watch.remove(this.#options.signal, this);
  }

  #line(body: string): string {
    const head = `{"custom_id":"${this.id}","method":"POST","url":"${this.url}","body":`;
    return `${head}${body}}\n`;
  }
}

export function tooLargeForFile(bytes: number, maxBytes: number): SluiceError {
  const detail = `its line of the batch file has ${bytes} bytes, a file may have ${maxBytes}`;
  return new SluiceError("REQUEST_REFUSED", detail, {
    hint: "shorten the prompt, take a smaller image, or raise model.batch.maxFileBytes",
  });
}
