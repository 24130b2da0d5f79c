import type { Usage } from "../../foundation/inference.ts";
import type { HttpReply, ReplySink, RequestBody } from "./transport.ts";

/** What a server can be asked for. */
export type Form = "chat" | "completion" | "embedding" | "transcription";

/** One HTTP request and what it is for, whichever endpoint gets it. */
export interface Call<T extends { usage: Usage }> {
  form: Form;
  /** Tokens of the prompt, and those that the answer may have, estimated. */
  tokens: number;
  /** Key of its prefix: it had better go where others of that key went. */
  key?: number | undefined;
  /** A sink for one try, where the caller wants the answer as it comes. */
  sink?(): ReplySink | undefined;
  /** A part of the answer was told: it cannot be asked for once more. */
  readonly hasTold?: boolean;
  /** @param isOpenaiItself leave out what api.openai.com would refuse. */
  body(isOpenaiItself: boolean): RequestBody;
  /**
   * What a 200 says.
   *
   * @param redact takes secrets out of what is quoted.
   * @throws SluiceError where it does not say it.
   */
  read(reply: HttpReply, redact: (text: string) => string): T;
}
