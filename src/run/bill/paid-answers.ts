import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";

/** Answers that were paid for, and their tokens. */
export interface PaidAnswers extends Usage {
  /** How many. */
  answers: number;
}

export const noPaidAnswers: PaidAnswers = Object.freeze({ answers: 0, ...noUsage });

/** The sum of two. */
export function addPaidAnswers(a: PaidAnswers, b: PaidAnswers): PaidAnswers {
  return { answers: a.answers + b.answers, ...addUsage(a, b) };
}
