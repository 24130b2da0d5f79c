import type { Answer, InferenceRequest, Usage } from "../../foundation/inference.ts";
import type { Call, Form } from "./call.ts";
import { readReply } from "./reply.ts";
import type { RequestWriter } from "./request-body.ts";
import type { HttpReply } from "./transport.ts";

/** Characters that a token has in most texts, for limits of tokens. */
const charsPerToken = 4;

/** A chat or a completion. */
export class GenerationCall implements Call<{ answers: readonly Answer[]; usage: Usage }> {
  readonly form: Form & ("chat" | "completion");
  readonly key: number | undefined;
  readonly #request: InferenceRequest;
  readonly #image: string | undefined;
  readonly #writerFor: (isOpenaiItself: boolean) => RequestWriter;

  /** @param image the address, with its content, of an image that the chat shows. */
  constructor(
    request: InferenceRequest,
    key: number | undefined,
    writerFor: (isOpenaiItself: boolean) => RequestWriter,
    image?: string,
  ) {
    this.form = request.messages === undefined ? "completion" : "chat";
    this.key = key;
    this.#request = request;
    this.#image = image;
    this.#writerFor = writerFor;
  }

  get tokens(): number {
    const { maxNewTokens, numReturnSequences = 1 } = this.#request.parameters;
    return promptTokens(this.#request) + maxNewTokens * numReturnSequences;
  }

  body(isOpenaiItself: boolean): string {
    return this.#writerFor(isOpenaiItself).write(this.#request, this.#image);
  }

  read(reply: HttpReply, redact: (text: string) => string) {
    return readReply(reply, this.form, this.#request.parameters, redact);
  }
}

/** Tokens of a prompt, estimated. */
export function promptTokens({
  messages,
  prompt = "",
}: Pick<InferenceRequest, "messages" | "prompt">): number {
  let characters = prompt.length;
  for (const { content } of messages ?? []) characters += content.length;
  return Math.ceil(characters / charsPerToken);
}
