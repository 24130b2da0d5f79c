import { SluiceError } from "../foundation/errors.ts";
import type { InferenceResponse, OnDelta } from "../foundation/inference.ts";

/**
 * Guarantees what `Engine.infer` promises of deltas, whatever `infer` reports: missing text is
 * reported before the response, and nothing is reported after that or after an abort.
 *
 * @throws errors of `infer`; the signal's reason; `RESPONSE_MALFORMED` if an answer differs from
 *   its deltas.
 */
export async function withDeltas(
  onDelta: OnDelta,
  signal: AbortSignal,
  infer: (tell: OnDelta) => Promise<InferenceResponse>,
): Promise<InferenceResponse> {
  const told: string[] = [];
  let isOver = false;
  const tell: OnDelta = (delta) => {
    const { choice, text } = delta;
    if (isOver || signal.aborted || text === "") return;
    told[choice] = (told[choice] ?? "") + text;
    onDelta(delta);
  };
  try {
    const response = await infer(tell);
    for (const [choice, { text, tokens }] of response.answers.entries()) {
      const before = told[choice];
      if (before === undefined) tell({ choice, text, tokens });
      else if (text.startsWith(before)) tell({ choice, text: text.slice(before.length) });
      else throw new SluiceError("RESPONSE_MALFORMED", "the answer differs from what was streamed");
    }
    signal.throwIfAborted();
    return response;
  } finally {
    isOver = true;
  }
}
