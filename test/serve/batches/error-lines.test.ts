import { expect, it } from "vitest";
import { errorLine } from "../../../src/serve/batches/batches.ts";

/** The lines of a run and of OpenAI for a row that failed with the run's own name of the error. */
function linesOf(status: number, runCode: string) {
  const own = { id: "batch_req_1", custom_id: "a" };
  const error = { message: "no", type: "invalid_request_error", param: "top_p", code: "any" };
  const response = { status_code: status, request_id: "req_1", body: { error } };
  const line = { ...own, response, error: { code: runCode, message: "refused: no" } };
  return { own, response, written: JSON.parse(errorLine(JSON.stringify(line))) };
}

it("a refused row has its response alone", () => {
  const { own, response, written } = linesOf(400, "invalid_request");
  expect(written).toEqual({ ...own, response, error: null });
});

it("a row that was never sent has no response", () => {
  const { own, written } = linesOf(500, "batch_canceled");
  const message = "This request was not executed, because the batch was cancelled.";
  expect(written).toEqual({ ...own, response: null, error: { code: "batch_cancelled", message } });
  const { written: expired } = linesOf(500, "batch_expired");
  expect([expired.response, expired.error.code]).toEqual([null, "batch_expired"]);
});
