import { describe, expect, it } from "vitest";
import { FailureReader } from "../../../src/engines/openai/failures.ts";
import { TransportError } from "../../../src/engines/openai/transport.ts";
import { limits } from "../../../src/foundation/limits.ts";

const key = "sk-very-secret";
const nowMs = Date.UTC(2026, 0, 1);
const reader = new FailureReader([key, ""], () => nowMs);

function ofStatus(status: number, body: unknown = {}, headers: Record<string, string> = {}) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const failure = reader.ofStatus({ status, text, headers });
  if (failure.of === "endpoint") return { endpoint: true, ...failure.failure };
  const { code, message, retryAfterMs, hint } = failure.error;
  return { code, message, retryAfterMs, hint };
}

const says = (message: string, code?: string) => ({ error: { message, code } });

describe("a status", () => {
  it.each([
    [400, says("bad value"), "REQUEST_REFUSED"],
    [400, says("too much", "context_length_exceeded"), "PROMPT_TOO_LONG"],
    [
      400,
      { object: "error", message: "This model's maximum context length is 4096 tokens" },
      "PROMPT_TOO_LONG",
    ],
    [400, says("the request exceeds the available context size"), "PROMPT_TOO_LONG"],
    [500, says("the request exceeds the available context size"), "PROMPT_TOO_LONG"],
    [400, says("The model `x` does not exist"), "MODEL_UNKNOWN"],
    [401, says("no key"), "AUTHENTICATION_FAILED"],
    [402, says("no money"), "ENDPOINT_UNUSABLE"],
    [403, says("not yours"), "AUTHENTICATION_FAILED"],
    [403, says("the input was flagged"), "REQUEST_REFUSED"],
    [404, says("The model `x` does not exist or you do not have access"), "MODEL_UNKNOWN"],
    [404, says("model 'llama9' not found"), "MODEL_UNKNOWN"],
    [404, { detail: "Not Found" }, "ENDPOINT_PATH_UNKNOWN"],
    [405, "", "ENDPOINT_PATH_UNKNOWN"],
    [301, "", "ENDPOINT_PATH_UNKNOWN"],
    [408, "", "TIMEOUT"],
    [409, "", "SERVER_ERROR"],
    [413, "", "REQUEST_REFUSED"],
    [422, { detail: [{ msg: "field required" }] }, "REQUEST_REFUSED"],
    [429, says("You exceeded your current quota", "insufficient_quota"), "ENDPOINT_UNUSABLE"],
    [429, says("Request too large for x on tokens per min"), "REQUEST_REFUSED"],
    [500, says("oops"), "SERVER_ERROR"],
    [502, "<html>Bad Gateway</html>", "SERVER_ERROR"],
    [503, says("loading model"), "SERVER_ERROR"],
    [529, "", "SERVER_ERROR"],
  ])("%d with %j is %s", (status, body, code) => {
    expect(ofStatus(status, body)).toMatchObject({ code });
  });

  it("429, and 503 with Retry-After, belong to the endpoint", () => {
    expect(ofStatus(429, says("slow down"))).toEqual({
      endpoint: true,
      message: "status 429: slow down",
      retryAfterMs: undefined,
      server: { status: 429, message: "slow down" },
    });
    const header = { "retry-after": "3" };
    expect(ofStatus(503, "", header)).toMatchObject({ endpoint: true, retryAfterMs: 3000 });
  });

  it("gives Retry-After as seconds, date or milliseconds", () => {
    const after = (headers: Record<string, string>) => ofStatus(429, "", headers).retryAfterMs;
    expect(after({ "retry-after": "7" })).toBe(7000);
    expect(after({ "retry-after": new Date(nowMs + 9000).toUTCString() })).toBe(9000);
    expect(after({ "retry-after": "7", "retry-after-ms": "250" })).toBe(250);
    expect(after({ "retry-after": "soon" })).toBeUndefined();
    expect(ofStatus(500, "", { "retry-after": "2" })).toMatchObject({
      code: "SERVER_ERROR",
      retryAfterMs: 2000,
    });
  });

  it("limits what one request waits, and further what all requests wait", () => {
    const day = { "retry-after": "86400" };
    expect(ofStatus(429, "", day).retryAfterMs).toBe(limits.maxEndpointPauseMs);
    expect(ofStatus(500, "", day)).toMatchObject({ retryAfterMs: limits.maxRetryAfterMs });
  });

  it("repeats what the server says, on one short line, without the key", () => {
    expect(ofStatus(400, says("a\nb", "bad_value")).message).toContain(
      "status 400: a b (bad_value)",
    );
    expect(ofStatus(400, { error: "plain text" }).message).toContain("plain text");
    expect(ofStatus(400, "no json").message).toContain("no json");
    const { message } = ofStatus(401, says(`${"x".repeat(490)}${key} is wrong`));
    expect(message).not.toContain("sk-");
    expect(message.length).toBeLessThan(600);
    const often = (text: string) => `not ${[text, text, text, text].join(", ")}`;
    expect(ofStatus(401, says(often(key))).message).toContain(often("[redacted]"));
  });

  it("keeps the members of the server's error as they were given, without the key", () => {
    const serverIn = (status: number, body: unknown) => {
      const text = typeof body === "string" ? body : JSON.stringify(body);
      const failure = reader.ofStatus({ status, text, headers: {} });
      return failure.of === "request" ? failure.error.server : undefined;
    };
    const given = { message: "a\nb", type: "invalid_request_error", param: "top_p", code: null };
    expect(serverIn(400, { error: { ...given, n_ctx: 512 } })).toEqual({ status: 400, ...given });
    const flat = { object: "error", message: "no", type: "BadRequestError", code: 400 };
    expect(serverIn(400, flat)).toEqual({
      ...{ status: 400, message: "no" },
      type: flat.type,
      code: 400,
    });
    expect(serverIn(502, "<html>")).toEqual({ status: 502 });
    expect(serverIn(400, says(`not ${key}`, key))).toEqual({
      ...{ status: 400, message: "not [redacted]", code: "[redacted]" },
    });
    const signed = says(`see https://h/a?sig=${"x1".repeat(20)} ${"y".repeat(9000)}`);
    const { message } = serverIn(400, signed)!;
    expect(message).toContain("https://h/a?sig=[redacted]");
    expect(message!.length).toBe(4000);
  });

  it("hints at what helps with a server", () => {
    expect(ofStatus(404, says("model x not found")).hint).toContain("/models");
  });
});

describe("a failure of the transport", () => {
  it.each([
    ["timeout", "TIMEOUT"],
    ["lost", "CONNECTION_LOST"],
    ["garbled", "RESPONSE_MALFORMED"],
  ] as const)("%s is %s of the request", (kind, code) => {
    const failure = reader.ofTransport(new TransportError(kind, `with ${key}`));
    expect(failure).toMatchObject({ of: "request", error: { code, retryable: true } });
    expect(JSON.stringify(failure)).not.toContain(key);
  });

  it("belongs to the endpoint when nothing was sent", () => {
    const error = new TransportError("unreachable", "connect ECONNREFUSED", "ECONNREFUSED");
    expect(reader.ofTransport(error)).toEqual({
      of: "endpoint",
      failure: { message: "connect ECONNREFUSED" },
    });
  });

  it("ends the run at once for a certificate", () => {
    const code = "DEPTH_ZERO_SELF_SIGNED_CERT";
    const failure = reader.ofTransport(new TransportError("unreachable", "self-signed", code));
    expect(failure).toMatchObject({ of: "request", error: { code: "ENDPOINT_UNUSABLE" } });
  });
});
