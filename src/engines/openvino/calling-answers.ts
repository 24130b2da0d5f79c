import type {
  Answer,
  AnswerDelta,
  InferenceRequest,
  InferenceResponse,
  OnDelta,
} from "../../foundation/inference.ts";
import { AnswerText } from "../weights/answer-text.ts";
import { type AskedCalls, callReadings } from "../weights/tool-calling.ts";

/** Divides what the host writes for a request that may call tools into text and calls. */
export class CallingAnswers {
  readonly #answers: CallingAnswer[];

  /** @param prompt the request's tokens. */
  constructor(calls: AskedCalls, request: InferenceRequest, prompt: readonly number[]) {
    const { stop, numReturnSequences = 1 } = request.parameters;
    const readingOf = callReadings(calls, request, prompt);
    this.#answers = Array.from({ length: numReturnSequences }, (_, at) => {
      return new CallingAnswer(new AnswerText({ stop, calls: readingOf(at) }));
    });
  }

  /** Receives the host's deltas; reports text alone. */
  deltas(onDelta: OnDelta): OnDelta {
    return (delta) => {
      const known = this.#answers[delta.choice]!.read(delta);
      if (known) onDelta(known);
    };
  }

  /** The host's response, with calls in place of their texts. */
  response(whole: InferenceResponse, onDelta?: OnDelta): InferenceResponse {
    const answers = whole.answers.map((answer, choice) => {
      const calling = this.#answers[choice]!;
      const [ended, rest] = calling.end(answer, choice);
      if (rest) onDelta?.(rest);
      return ended;
    });
    return { ...whole, answers };
  }
}

class CallingAnswer {
  readonly #text: AnswerText;
  #readChars = 0;
  #untoldTokens = 0;
  #toldTokens = 0;

  constructor(text: AnswerText) {
    this.#text = text;
  }

  read({ choice, text, tokens = 0 }: AnswerDelta): AnswerDelta | undefined {
    this.#readChars += text.length;
    this.#untoldTokens += tokens;
    this.#text.push(text);
    return this.#take(choice);
  }

  end(answer: Answer, choice: number): [Answer, AnswerDelta | undefined] {
    // Without a stream, nothing has been read yet.
    this.#text.push(answer.text.slice(this.#readChars));
    this.#text.end();
    this.#untoldTokens = answer.tokens - this.#toldTokens;
    const { value: text, toolCalls, isStopped } = this.#text;
    const ended: Answer = {
      ...answer,
      text,
      ...(isStopped && { finishReason: "stop" }),
      ...(toolCalls.length > 0 && { toolCalls }),
    };
    return [ended, this.#take(choice)];
  }

  #take(choice: number): AnswerDelta | undefined {
    const text = this.#text.take();
    if (text === "") return undefined;
    const tokens = this.#untoldTokens;
    this.#toldTokens += tokens;
    this.#untoldTokens = 0;
    return { choice, text, tokens };
  }
}
