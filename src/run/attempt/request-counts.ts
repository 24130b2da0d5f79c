/** Requests of rows. */
export interface RequestCounts {
  planned: number;
  answered: number;
  /** Answered ones with an earlier answer; absent = none. */
  reused?: number;
}

export const noRequests: RequestCounts = Object.freeze({ planned: 0, answered: 0 });

/** The sum of two counts; with `sign` -1 the difference. */
export function addRequestCounts(
  a: RequestCounts,
  b: RequestCounts,
  sign: 1 | -1 = 1,
): RequestCounts {
  const planned = a.planned + sign * b.planned;
  const answered = a.answered + sign * b.answered;
  const reused = (a.reused ?? 0) + sign * (b.reused ?? 0);
  return { planned, answered, ...(reused !== 0 && { reused }) };
}
