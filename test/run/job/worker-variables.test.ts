// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are what job files hold.
import { describe, expect, it } from "vitest";
import { jobSchema } from "../../../src/run/job/schema.ts";
import { asLiteral, filled, storedJob } from "../../../src/run/job/worker-variables.ts";
import { jobFolder, small } from "./job-folder.ts";

const { load, fail } = jobFolder();

describe("variables of workers", () => {
  it("are filled in, with fallbacks, and escaped", () => {
    const environment = { HOST: "h", EMPTY: "" };
    expect(filled("${HOST}:${PORT:-80}${EMPTY}$${HOST}", environment)).toEqual({
      text: "h:80${HOST}",
      hasReference: true,
      missing: [],
    });
    expect(filled("a${NONE}b", environment)).toMatchObject({ text: "ab", missing: ["NONE"] });
    for (const text of ["plain", "${HOST}", "$${HOST}", "$$${HOST}", "${A:-b}${C}"]) {
      expect(filled(asLiteral(text), environment).text).toBe(text);
    }
  });

  it("that look like secrets are kept by their names", () => {
    const env = {
      MY_TOKEN: "abc",
      DB: "postgres://u:pw@h/d",
      PLAIN: "8",
      GIVEN: "sk-12345678",
      URL: "https://h/x?a=Zm9vYmFy1",
      REF: "${OTHER}",
      PASSED: null,
    };
    const job = jobSchema.parse({ input: "/i", model: { engine: "fake" }, prompt: "x", env });
    expect(storedJob(job).env).toEqual({
      MY_TOKEN: "${MY_TOKEN}",
      DB: "${DB}",
      PLAIN: "8",
      GIVEN: "${GIVEN}",
      URL: "${URL}",
      REF: "${OTHER}",
      PASSED: null,
    });
  });

  it("stay references in job files, and are texts on the command line", async () => {
    const environment = { SECRET: "s3cret" };
    const sources = { environment, flags: { env: ["B=${SECRET}"] } };
    const { job } = await load(small('env: { A: "x-${SECRET}" }'), sources);
    expect(job.env).toEqual({ A: "x-${SECRET}", B: "$${SECRET}" });
    const missing = await fail(small("env:\n  A: ${NOT_SET}\n"));
    expect(missing.message).toContain("NOT_SET is not set");
  });

  it.each(["NODE_OPTIONS", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "BASH_ENV"])(
    "that load code are refused, unless they are the caller's: %s",
    async (name) => {
      const error = await fail(small(`env: { ${name}: /tmp/x }`));
      expect(error.message).toContain("would load code into every worker");
      expect(error.message).toContain(`env.${name}`);
      expect((await load(small(`env: { ${name}: null }`))).job.env).toEqual({ [name]: null });
    },
  );
});
