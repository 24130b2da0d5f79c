import type { Engine } from "../../src/engines/engine.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import type {
  InferenceRequest,
  InferenceResponse,
  RequestOrigin,
} from "../../src/foundation/inference.ts";

/** What a script sees of a request: it, and its origin without a name for it. */
export type ScriptedRequest = InferenceRequest & RequestOrigin;

/** A request that a scripted engine holds until the test answers it. */
export interface HeldRequest {
  request: ScriptedRequest;
  answer(text?: string): void;
  fail(error: Error): void;
}

export interface ScriptedEngine extends Engine {
  /** Requests that are with it now, in the order in which they came. */
  held: HeldRequest[];
  /** Rows it was asked, in order. */
  asked: number[];
  /** The most that it ever held. */
  most: number;
  /** Answers everything that it holds. */
  answerAll(): void;
}

/** A response of one answer. */
export function responseOf(text: string, finishReason: "stop" | "length" = "stop") {
  const response: InferenceResponse = {
    answers: [{ text, finishReason, tokens: 3 }],
    usage: { promptTokens: 7, cachedTokens: 0, completionTokens: 3 },
    seconds: 0.25,
  };
  return response;
}

type Reply = InferenceResponse | Error | undefined;

/**
 * An engine that does what the test says. `reply` decides at once, by request and by how often its
 * row was asked before; where it gives undefined the request is held.
 */
export function scriptedEngine(
  capacity: number,
  reply: (request: ScriptedRequest, before: number) => Reply = () => undefined,
): ScriptedEngine {
  const engine: ScriptedEngine = {
    name: "scripted",
    capacity,
    held: [],
    asked: [],
    most: 0,
    infer(asked, signal) {
      const request = { ...asked, ...asked.origin! };
      const before = engine.asked.filter((row) => row === request.index).length;
      engine.asked.push(request.index);
      const decided = reply(request, before);
      if (decided instanceof Error) return Promise.reject(decided);
      if (decided) return Promise.resolve(decided);
      const { promise, resolve, reject } = Promise.withResolvers<InferenceResponse>();
      const leave = () => {
        engine.held = engine.held.filter((other) => other !== held);
      };
      const held: HeldRequest = {
        request,
        answer(text = `answer ${request.index}`) {
          leave();
          resolve(responseOf(text));
        },
        fail(error) {
          leave();
          reject(error);
        },
      };
      engine.held.push(held);
      engine.most = Math.max(engine.most, engine.held.length);
      signal.addEventListener("abort", () => held.fail(signal.reason as Error), { once: true });
      return promise;
    },
    async close() {},
    answerAll() {
      for (const held of [...engine.held]) held.answer();
    },
  };
  return engine;
}

/** Answers with `text` and the row, save for some rows, which it refuses. */
export const refusing = (rows: readonly number[], text = "answer") =>
  scriptedEngine(2, ({ index }) =>
    rows.includes(index)
      ? new SluiceError("REQUEST_REFUSED", text)
      : responseOf(`${text} ${index}`),
  );

/** Lets everything happen that needs no time. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}
