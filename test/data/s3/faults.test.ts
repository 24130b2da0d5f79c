import { describe, expect, it } from "vitest";
import { faultOf, isTransient, type S3Fault, storeErrorOf } from "../../../src/data/s3/faults.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";

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
  ["transient", thrown("Unknown", 429)],
  ["transient", thrown("Unknown", 408)],
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
      "the storage failed: the credentials may not do this: AccessDenied: says AccessDenied " +
        "(status 403) (s3://bucket/a)",
    );
    expect(denied.hint).toContain("bucket");
    expect(storeErrorOf(thrown("PermanentRedirect", 301), "a").hint).toContain("store.region");
  });

  it.each([
    ["InvalidAccessKeyId", 403, "AWS_ACCESS_KEY_ID"],
    ["XAdminUserNotFound", 404, "AWS_ACCESS_KEY_ID"],
    ["SignatureDoesNotMatch", 403, "AWS_SECRET_ACCESS_KEY"],
    ["ExpiredToken", 400, "new credentials"],
    ["InvalidToken", 400, "AWS_SESSION_TOKEN"],
    ["RequestTimeTooSkewed", 403, "clock"],
    ["NoSuchBucket", 404, "create the bucket"],
    ["AuthorizationHeaderMalformed", 400, "AWS_REGION"],
    ["AccessDenied", 403, "allow them"],
    ["403", 403, "check the credentials"],
    ["BadRequest", 400, "store.pathStyle"],
  ])("tells each cause by a hint of its own: %s", (name, status, hint) => {
    expect(storeErrorOf(thrown(name, status), "a").hint).toContain(hint);
  });

  it.each([
    ["ENOTFOUND", "the address of the store is not known"],
    ["ECONNREFUSED", "the store does not answer"],
    ["DEPTH_ZERO_SELF_SIGNED_CERT", "the certificate of the store is not trusted"],
  ])("tells what the network says: %s", (code, reason) => {
    const error = storeErrorOf(thrown("Error", undefined, { code }), "a");
    expect(error.message).toContain(reason);
    expect(error.hint).not.toBe(new SluiceError("STORE_FAILED").hint);
  });

  it("keeps nothing of a request, which may hold a token", () => {
    const $response = { headers: { "x-amz-security-token": "secret" } };
    const error = storeErrorOf(thrown("AccessDenied", 403, { $response }), "a");
    expect(JSON.stringify({ ...(error.cause as object) })).toBe("{}");
    expect(storeErrorOf(error, "b")).toBe(error);
  });
});
