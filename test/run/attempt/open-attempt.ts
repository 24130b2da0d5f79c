import type { InputRow } from "../../../src/data/row.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { type AttemptListener, TaskAttempt } from "../../../src/run/attempt/attempt.ts";
import type { RequestRecord } from "../../../src/run/attempt/journal-line.ts";
import type { EarlierEnds } from "../../../src/run/attempt/suspects.ts";
import type { RunContext } from "../../../src/run/run-context.ts";
import type { PlannedRun } from "../run-fixture.ts";

/** What a plain request leaves in the journal. */
export const request: RequestRecord = {
  promptTokens: 7,
  tokens: [3],
  seconds: 0.25,
  finishReason: "stop",
  attempts: 1,
};

/** Listens to nothing. */
export const deaf: AttemptListener = { onFailure() {}, onDrain() {} };

/** An attempt at a task of the run; fails where the task is committed. */
export async function openAttempt(
  run: PlannedRun,
  task = 0,
  context: RunContext = run.context,
  ends: EarlierEnds = {},
  listener: AttemptListener = deaf,
): Promise<TaskAttempt> {
  const attempt = await TaskAttempt.open(context, await run.task(task), ends, listener);
  if (!(attempt instanceof TaskAttempt)) throw new Error("the task is committed");
  return attempt;
}

/** Answers rows with a text that names them. */
export function answer(attempt: TaskAttempt, ...rows: number[]): void {
  for (const row of rows) attempt.settleAnswered(row, [request], JSON.stringify(`answer ${row}`));
}

/** Lets a row fail for good. */
export function fail(
  attempt: TaskAttempt,
  index: number,
  partial?: string[],
  row?: InputRow,
): void {
  const failure = {
    error: new SluiceError("SERVER_ERROR", `of row ${index}`),
    tries: 3,
    requests: partial ? [request] : [],
    planned: 2,
    ...(partial ? { partial } : {}),
  };
  attempt.settleFailed(index, failure, row);
}
