import { describe, expect, it } from "vitest";
import { looksSecret, redactor, refuseSecrets, withoutSecrets } from "../../src/engines/secrets.ts";
import { SluiceError } from "../../src/foundation/errors.ts";

const environment = {
  HF_TOKEN: "hf_abcdefgh123",
  AWS_SECRET_ACCESS_KEY: "aws/secret/value",
  SHORT_KEY: "1",
  TOKENIZERS_PARALLELISM: "parallelism",
  DB_PASSWORD: undefined,
};

describe("secrets of an environment", () => {
  it("are taken out of texts, wherever they stand", () => {
    const redact = redactor(environment);
    expect(redact("Bearer hf_abcdefgh123, aws/secret/value.")).toBe(
      "Bearer [redacted], [redacted].",
    );
    expect(redact("1 of parallelism")).toBe("1 of parallelism");
  });

  it("are taken out of all texts of an error", () => {
    const key = "hf_abcdefgh123";
    const server = { status: 400, message: `bad ${key}` };
    const error = new SluiceError("REQUEST_REFUSED", `with ${key}`, { hint: `not ${key}`, server });
    const { message, hint, server: said } = withoutSecrets(error, redactor(environment)).toJSON();
    expect(JSON.stringify([message, hint, said])).not.toContain(key);
    expect(hint).toBe("not [redacted]");
  });

  it("have eight characters at least: shorter ones would be found within words", () => {
    const redact = redactor({ A_TOKEN: "12345678", B_TOKEN: "abcdefg" });
    expect(redact("12345678 of abcdefghi")).toBe("[redacted] of abcdefghi");
  });

  it("are taken out under any name, if what they hold looks like a key", () => {
    const redact = redactor({ LOGIN: "sk-live-abcdef", WHO: "you and me" });
    expect(redact("sk-live-abcdef of you and me")).toBe("[redacted] of you and me");
    const refused = () =>
      refuseSecrets(["--login=sk-live-abcdef"], "model.args", { LOGIN: "sk-live-abcdef" });
    expect(refused).toThrow(/LOGIN \(field model\.args\)$/);
  });

  it("in addresses are taken out too", () => {
    expect(redactor({})("at http://me:word@proxy:3128/")).toBe("at http://[redacted]@proxy:3128/");
  });

  it("are told by names and by what they hold", () => {
    const secrets = { API_KEY: "x", db_password: "x", A: "hf_abcdef", B: "ghp_x", C: "eyJhbGci.e" };
    for (const [name, value] of Object.entries(secrets))
      expect(looksSecret(name, value)).toBe(true);
    expect(looksSecret("D", "https://u:p@h/")).toBe(true);
    for (const [name, value] of [
      ["OMP_NUM_THREADS", "8"],
      ["TOKENIZERS_PARALLELISM", "false"],
      ["BASE_URL", "https://h/v1?version=2"],
    ] as const) {
      expect(looksSecret(name, value)).toBe(false);
    }
  });

  it("in a job are refused by the variable's name", () => {
    const refused = () => refuseSecrets(["--token=hf_abcdefgh123"], "model.args", environment);
    expect(refused).toThrow(expect.objectContaining({ code: "JOB_INVALID" }));
    expect(refused).toThrow(/HF_TOKEN \(field model\.args\)$/);
    expect(() => refuseSecrets(["--token"], "model.args", environment)).not.toThrow();
  });
});
