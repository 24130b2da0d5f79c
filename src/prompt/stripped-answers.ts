import type { PromptSet } from "./prompt-set.ts";

/**
 * The same prompts with white space stripped from both ends of each answer that is text. What goes
 * on from an answer goes on from the stripped one.
 */
export function withStrippedAnswers(promptSet: PromptSet): PromptSet {
  return {
    names: promptSet.names,
    keeper: promptSet.keeper,
    requests: (row, index, dataset, raw) => promptSet.requests(row, index, dataset, raw),
    ready: (requests, responses, at) => promptSet.ready(requests, responses, at),
    accept: (request, response) => {
      const accepted = promptSet.accept(request, response);
      const answers = accepted.answers.map((answer) => ({ ...answer, text: answer.text.trim() }));
      return { ...accepted, answers };
    },
    reask: (request, badText, problem) => promptSet.reask(request, badText, problem),
    answer: (requests, responses) => promptSet.answer(requests, responses),
    partialAnswer: (requests, responses) => promptSet.partialAnswer(requests, responses),
  };
}
