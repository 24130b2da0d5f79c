import type { InferenceRequest, InferenceResponse, Usage } from "../../foundation/inference.ts";
import type { HttpReply, ReplySink, RequestBody } from "./transport.ts";

/** The kinds of a server's answers. */
export type Form = "chat" | "completion" | "embedding" | "transcription" | "translation";

/** An engine's answer without its time. */
export type Answered = Omit<InferenceResponse, "seconds">;

/** One HTTP request with its context, for any endpoint. */
export interface Call<T extends { usage: Usage }> {
  form: Form;
  /** Estimated tokens of the prompt and of the longest answer. */
  tokens: number;
  /** Key of its prefix: it should go to the endpoint of earlier requests with that key. */
  key?: number | undefined;
  /** Where the server has no such path, this request alone fails. Default false. */
  mayLackPath?: boolean;
  /** What it is for, where that is traced. */
  readonly traced?: readonly InferenceRequest[] | undefined;
  /** A sink for one try, if the caller wants the answer in parts. */
  sink?(): ReplySink | undefined;
  /** Part of the answer was reported: the request cannot be repeated. */
  readonly hasTold?: boolean;
  /** @param isOpenaiItself leaves out what api.openai.com would refuse. */
  body(isOpenaiItself: boolean): RequestBody;
  /**
   * The content of a 200.
   *
   * @param redact removes secrets from quotations.
   * @throws SluiceError for a body without such content.
   */
  read(reply: HttpReply, redact: (text: string) => string): T;
}
