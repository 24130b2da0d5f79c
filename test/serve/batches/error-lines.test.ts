import { describe, expect, it } from "vitest";
import { errorLine } from "../../../src/serve/batches/error-lines.ts";

const failed = (code: string, message: string) => {
  const error = { message, type: "invalid_request_error", param: null, code: null };
  return JSON.stringify({
    ...{ id: "batch_req_1", custom_id: "a" },
    response: { status_code: 400, request_id: "req_1", body: { error } },
    error: { code, message },
  });
};
const rewritten = (code: string, message: string) => JSON.parse(errorLine(failed(code, message)));

describe("errorLine", () => {
  it("has no response for a row that was never sent", () => {
    const said = "the server refused the request: status 410: the batch was cancelled";
    expect(rewritten("invalid_request", `${said} (batch_cancelled)`)).toEqual({
      ...{ id: "batch_req_1", custom_id: "a", response: null },
      error: {
        code: "batch_cancelled",
        message: "This request was not executed, because the batch was cancelled.",
      },
    });
  });

  it("likewise for a row that its run gave up", () => {
    const unsent = (code: string) => {
      const { response, error } = rewritten(code, "the batch is over");
      return [response, error?.code];
    };
    expect(unsent("batch_canceled")).toEqual([null, "batch_cancelled"]);
    expect(unsent("batch_expired")).toEqual([null, "batch_expired"]);
  });

  it("has the server's own status, words, code and field for a refused row", () => {
    const said = "status 413: too much (field body.messages) (request_too_large)";
    const line = rewritten("invalid_request", `the server refused the request: ${said}`);
    expect(line.error).toBeNull();
    expect(line.response).toMatchObject({ status_code: 413, request_id: "req_1" });
    expect(line.response.body.error).toEqual({
      message: "too much (field body.messages)",
      type: "invalid_request_error",
      param: "messages",
      code: "request_too_large",
    });
  });

  it("keeps what was not sent to a server", () => {
    const { response } = rewritten("invalid_value", "a field is wrong (field body.temperature)");
    expect(response.status_code).toBe(400);
    expect(response.body.error).toMatchObject({ param: "temperature", code: "invalid_value" });
  });

  it("takes nobody's words for those of the server", () => {
    const { response } = rewritten("invalid_request", "status 400: say (batch_expired)");
    expect(response.body.error.message).toBe("say");
  });
});
