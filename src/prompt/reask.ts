import type { ChatMessage, InferenceRequest } from "../foundation/inference.ts";

/**
 * The same request with its bad answer and the complaint shown to the model. A completion has no
 * place for them and comes back as it is.
 *
 * @param noun what the answer should have been: `line`, `JSON`.
 */
export function withComplaint<R extends InferenceRequest>(
  request: R,
  badText: string,
  problem: string,
  noun: string,
): R {
  if (request.messages === undefined) return request;
  const messages = [...request.messages];
  const last = messages.at(-1);
  // The answer goes on where the prompt's own beginning of it ended.
  const begun = last?.role === "assistant" ? last.content : "";
  if (begun !== "") messages.pop();
  const bad: ChatMessage = { role: "assistant", content: begun + badText || "(nothing)" };
  const complaint = `That is not right: ${problem}\nAnswer again, with the corrected ${noun} only.`;
  const { tokens: _ofOtherWords, ...rest } = request;
  const ask: ChatMessage = { role: "user", content: complaint };
  return { ...(rest as R), messages: [...messages, bad, ask] };
}
