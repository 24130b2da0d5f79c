import { expect, it } from "vitest";
import { errorLine, unsentStatus } from "../../../src/serve/batches/error-lines.ts";

/** The lines of a run and of OpenAI for a row that was refused with a status and a code. */
function linesOf(status: number, code: string, runCode = "invalid_request") {
  const own = { id: "batch_req_1", custom_id: "a" };
  const error = { message: "no", type: "invalid_request_error", param: "top_p", code };
  const response = { status_code: status, request_id: "req_1", body: { error } };
  const line = { ...own, response, error: { code: runCode, message: "refused: no" } };
  return { own, response, written: JSON.parse(errorLine(JSON.stringify(line))) };
}

it("a refused row has its response alone", () => {
  for (const [status, code] of [
    [400, "batch_cancelled"],
    [unsentStatus, "gone"],
  ] as const) {
    const { own, response, written } = linesOf(status, code);
    expect(written).toEqual({ ...own, response, error: null });
  }
});

it("a row that was never sent has no response, whether the server refused it or its run", () => {
  const message = "This request was not executed, because the batch was cancelled.";
  for (const { own, written } of [
    linesOf(unsentStatus, "batch_cancelled"),
    linesOf(500, "batch_canceled", "batch_canceled"),
  ]) {
    expect(written).toEqual({
      ...own,
      response: null,
      error: { code: "batch_cancelled", message },
    });
  }
  const { written } = linesOf(500, "batch_expired", "batch_expired");
  expect([written.response, written.error.code]).toEqual([null, "batch_expired"]);
});
