import { describe, expect, it } from "vitest";
import { faultOf, isTransient, type S3Fault, storeErrorOf } from "../../../src/data/s3/faults.ts";

const thrown = (name: string, status?: number, rest: object = {}) =>
  Object.assign(new Error(`says ${name}`), {
    name,
    ...(status !== undefined && { $metadata: { httpStatusCode: status } }),
    ...rest,
  });

const table: [S3Fault, unknown][] = [
  ["absent", thrown("NoSuchKey", 404)],
  ["absent", thrown("NotFound", 404)],
  ["absent", thrown("NoSuchUpload", 404)],
  ["refused", thrown("NoSuchBucket", 404)],
  ["condition", thrown("PreconditionFailed", 412)],
  ["conflict", thrown("ConditionalRequestConflict", 409)],
  ["refused", thrown("ObjectParentIsFile", 409)],
  ["transient", thrown("SlowDown", 503)],
  ["transient", thrown("InternalError", 500)],
  ["transient", thrown("Unknown", 502)],
  ["transient", thrown("TooManyRequestsException", 429)],
  ["transient", thrown("RequestTimeTooSkewed", 403)],
  ["transient", thrown("BadDigest", 400)],
  ["transient", thrown("Error", undefined, { code: "ECONNRESET" })],
  ["transient", thrown("Error", undefined, { code: "ECONNREFUSED" })],
  ["transient", thrown("TimeoutError")],
  // The reply began well and broke off.
  ["transient", thrown("Error", 200, { code: "ECONNRESET" })],
  ["refused", thrown("Error", undefined, { code: "ENOTFOUND" })],
  ["refused", thrown("AccessDenied", 403)],
  ["refused", thrown("CredentialsProviderError")],
  ["full", thrown("QuotaExceeded", 403)],
  ["full", thrown("XMinioStorageFull", 507)],
];

describe("faultOf", () => {
  for (const [fault, error] of table) {
    it(`takes ${(error as Error).name} for ${fault}`, () => {
      expect(faultOf(error)).toBe(fault);
      expect(isTransient(error)).toBe(fault === "transient" || fault === "conflict");
    });
  }
});

describe("storeErrorOf", () => {
  it("names code, place and what to do", () => {
    const codeOf = (error: unknown) => storeErrorOf(error, "s3://bucket/a").code;
    expect(codeOf(thrown("NoSuchKey", 404))).toBe("NOT_FOUND");
    expect(codeOf(thrown("QuotaExceeded", 403))).toBe("STORE_FULL");
    expect(codeOf(thrown("SlowDown", 503))).toBe("STORE_FAILED");
    const denied = storeErrorOf(thrown("AccessDenied", 403), "s3://bucket/a");
    expect(denied.message).toBe(
      "the storage failed: AccessDenied: says AccessDenied (status 403) (s3://bucket/a)",
    );
    expect(denied.hint).toContain("credentials");
    expect(storeErrorOf(thrown("PermanentRedirect", 301), "a").hint).toContain("store.region");
  });

  it("keeps nothing of a request, which may hold a token", () => {
    const $response = { headers: { "x-amz-security-token": "secret" } };
    const error = storeErrorOf(thrown("AccessDenied", 403, { $response }), "a");
    expect(JSON.stringify({ ...(error.cause as object) })).toBe("{}");
    expect(storeErrorOf(error, "b")).toBe(error);
  });
});
