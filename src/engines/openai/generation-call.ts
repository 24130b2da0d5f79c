import {
  estimatedTokens,
  type InferenceRequest,
  type OnDelta,
  promptCharacters,
} from "../../foundation/inference.ts";
import type { Answered, Call, Form } from "./call.ts";
import { readReply } from "./reply.ts";
import type { RequestWriter } from "./request-body.ts";
import { StreamedReply, streamFields } from "./streamed-reply.ts";
import type { HttpReply } from "./transport.ts";

export class GenerationCall implements Call<Answered> {
  readonly form: Form & ("chat" | "completion");
  readonly key: number | undefined;
  readonly #request: InferenceRequest;
  readonly #image: string | undefined;
  readonly #writerFor: (isOpenaiItself: boolean) => RequestWriter;
  readonly #onDelta: OnDelta | undefined;
  #streamed: StreamedReply | undefined;

  /**
   * @param image the data address of an image in the chat.
   * @param onDelta called with the answers as they arrive.
   */
  constructor(
    request: InferenceRequest,
    key: number | undefined,
    writerFor: (isOpenaiItself: boolean) => RequestWriter,
    image?: string,
    onDelta?: OnDelta,
  ) {
    this.form = request.messages === undefined ? "completion" : "chat";
    this.key = key;
    this.#request = request;
    this.#image = image;
    this.#onDelta = onDelta;
    this.#writerFor = writerFor;
  }

  get tokens(): number {
    const { maxNewTokens, numReturnSequences = 1 } = this.#request.parameters;
    return estimatedTokens(promptCharacters(this.#request)) + maxNewTokens * numReturnSequences;
  }

  get traced(): readonly InferenceRequest[] | undefined {
    return this.#request.trace && [this.#request];
  }

  body(isOpenaiItself: boolean): string {
    const body = this.#writerFor(isOpenaiItself).write(this.#request, this.#image);
    return this.#onDelta ? body.slice(0, -1) + streamFields : body;
  }

  sink(): StreamedReply | undefined {
    if (this.#onDelta === undefined) return undefined;
    const { numReturnSequences = 1 } = this.#request.parameters;
    this.#streamed = new StreamedReply(this.form, numReturnSequences, this.#onDelta);
    return this.#streamed;
  }

  get hasTold(): boolean {
    return this.#streamed?.hasTold ?? false;
  }

  read(reply: HttpReply, redact: (text: string) => string) {
    return readReply(reply, this.form, this.#request.parameters, redact);
  }
}
