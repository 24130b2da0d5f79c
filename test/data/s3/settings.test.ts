import { describe, expect, it } from "vitest";
import { bucketSettings, parseObjectLocation } from "../../../src/data/s3/settings.ts";
import { storeFromEnvironment, storeVariables } from "../../../src/data/s3/store-options.ts";

const keys = { AWS_ACCESS_KEY_ID: "key", AWS_SECRET_ACCESS_KEY: "secret" };
const settingsOf = (
  scheme: string,
  options: Parameters<typeof bucketSettings>[1] = {},
  environment: Record<string, string> = {},
) => {
  const { credentials: _, checksums: __, ...place } = bucketSettings(scheme, options, environment);
  return place;
};

describe("parseObjectLocation", () => {
  it("takes scheme, bucket and key apart", () => {
    const parts = (scheme: string, bucket: string, key: string) => ({ scheme, bucket, key });
    expect(parseObjectLocation("s3://my.bucket/a/b c")).toEqual(parts("s3", "my.bucket", "a/b c"));
    expect(parseObjectLocation("S3://bucket")).toEqual(parts("s3", "bucket", ""));
    expect(parseObjectLocation("gs://bucket//a/")).toEqual(parts("gs", "bucket", "a/"));
  });

  it("refuses what names no bucket", () => {
    for (const location of ["s3://", "s3:///a", "s3://a b/c", "https://bucket/a", "bucket/a"]) {
      expect(() => parseObjectLocation(location), location).toThrow("names no bucket");
    }
  });
});

describe("bucketSettings", () => {
  it("is AWS with the buckets in host names where nothing is said", () => {
    const aws = { endpoint: undefined, region: undefined, isPathStyle: false };
    expect(settingsOf("s3")).toEqual(aws);
    expect(settingsOf("s3", { region: "eu-west-1" })).toEqual({ ...aws, region: "eu-west-1" });
    expect(settingsOf("s3", {}, { AWS_DEFAULT_REGION: "a" })).toEqual({ ...aws, region: "a" });
  });

  it("goes to an endpoint in path style, unless that is set", () => {
    const [general, own, job] = ["http://general", "http://own", "http://job"];
    const both = { AWS_ENDPOINT_URL: general, AWS_ENDPOINT_URL_S3: own };
    const at = (endpoint: string, isPathStyle = true) => ({
      ...{ endpoint, region: "us-east-1", isPathStyle },
    });
    expect(settingsOf("s3", {}, { AWS_ENDPOINT_URL: general })).toEqual(at(general));
    expect(settingsOf("s3", {}, both)).toEqual(at(own));
    expect(settingsOf("s3", { endpoint: job }, both)).toEqual(at(job));
    expect(settingsOf("s3", { pathStyle: false }, both)).toEqual(at(own, false));
  });

  it("knows where R2 and Google's stores are", () => {
    const r2 = settingsOf("r2", {}, { R2_ACCOUNT_ID: "abc", AWS_ENDPOINT_URL: "http://other" });
    expect(r2.endpoint).toBe("https://abc.r2.cloudflarestorage.com");
    expect(r2.region).toBe("auto");
    expect(settingsOf("r2", { endpoint: "http://job" }).endpoint).toBe("http://job");
    expect(() => settingsOf("r2")).toThrow("R2_ACCOUNT_ID");
    expect(settingsOf("gs").endpoint).toBe("https://storage.googleapis.com");
  });

  it("takes keys of the environment, and leaves all else to the chain", () => {
    expect(bucketSettings("s3", {}, keys).credentials).toEqual({
      accessKeyId: "key",
      secretAccessKey: "secret",
    });
    const session = { ...keys, AWS_SESSION_TOKEN: "token" };
    expect(bucketSettings("s3", {}, session).credentials).toMatchObject({ sessionToken: "token" });
    expect(bucketSettings("s3", {}, { AWS_PROFILE: "p" }).credentials).toBe(undefined);
  });
});

describe("store options as variables", () => {
  it("come back as they were", () => {
    const store = {
      endpoint: "http://here",
      region: "r",
      pathStyle: false,
      conditional: "none" as const,
    };
    expect(storeFromEnvironment(storeVariables(store, {}))).toEqual(store);
    expect(storeVariables(store, storeVariables(store, {}))).toEqual({});
    expect(storeVariables({}, {})).toEqual({});
    expect(storeFromEnvironment({})).toEqual({});
  });
});
