import { describe, expect, it } from "vitest";
import { limits } from "../../../src/foundation/limits.ts";
import { jobFolder, small } from "./job-folder.ts";

const { load, fail } = jobFolder();
const reference = (name: string) => `\${${name}}`;

describe("whole numbers of a job", () => {
  const long = "12345678901234567890";

  it("are refused where a number would lose digits, in the file and in a flag", async () => {
    const model = "{ engine: openai, name: m, baseUrl: http://x/v1, extraBody: { user_id: LONG } }";
    const text = small().replace("{ engine: fake }", model);
    expect(await fail(text.replace("LONG", long))).toMatchObject({
      code: "JOB_INVALID",
      message: expect.stringContaining(`${long} is beyond 2^53`),
      place: { field: "model.extraBody.user_id" },
    });
    const sets = [`model.extraBody={user_id: ${long}}`];
    expect((await fail(text.replace("LONG", "1"), { sets })).message).toContain("beyond 2^53");
    // A bound of 64 bits excludes nothing that a number holds.
    const schema = "schema: { type: integer, maximum: 9223372036854775807 }";
    expect((await load(small(schema))).job.schema).toMatchObject({ maximum: 2 ** 63 });
    const { job } = await load(text.replace("LONG", "9007199254740991"));
    expect(job.model).toMatchObject({ extraBody: { user_id: 9007199254740991 } });
  });
});

describe("variables in a job file", () => {
  it("are filled in everywhere, prompts included", async () => {
    const text = small(`name: "${reference("USER")}-${reference("TAG:-dev")}"`).replace(
      "Say",
      `${reference("GREETING")}:`,
    );
    const environment = { USER: "me", GREETING: "Hello", TAG: "" };
    const { job } = await load(text, { environment });
    expect(job.name).toBe("me-dev");
    expect(job.prompt?.prompt).toBe("Hello: {{ text }}");
  });

  it("take the type of their key", async () => {
    const text = small(`limit: ${reference("ROWS:-12")}`);
    expect((await load(text)).job.limit).toBe(12);
    expect((await load(text, { environment: { ROWS: "3" } })).job.limit).toBe(3);
  });

  it("are escaped by a second dollar, and other dollars stay", async () => {
    const { job } = await load(small(`name: "$${reference("HOME")} costs $5, \${5}"`));
    expect(job.name).toBe(`${reference("HOME")} costs $5, \${5}`);
  });

  it("must be set, or have a fallback", async () => {
    const error = await fail(small(`name: ${reference("NOT_THERE")}`));
    expect(error.code).toBe("ENV_MISSING");
    expect(error.message).toContain("NOT_THERE");
    expect(error.place).toEqual({ file: "job.yaml", line: 4, field: "name" });
  });

  it("are not looked for in values of the environment itself", async () => {
    const environment = { SLUICE_NAME: reference("HOME"), HOME: "/x" };
    expect((await load(small(), { environment })).job.name).toBe(reference("HOME"));
  });

  it.each([
    ["{{ text }}", "without quotes is a mapping to YAML"],
    ["{{ text }} is good", "Unexpected scalar"],
    ["[INST] {{ text }}", "Unexpected"],
    ["{% if a %}b{% endif %}", "cannot start"],
    ["{ prompt: {{ text }} }", "without quotes is a mapping to YAML"],
  ])("says that a template such as %s is quoted", async (template, message) => {
    const error = await fail(`input: rows.jsonl\nmodel: { engine: fake }\nprompt: ${template}\n`);
    expect(error).toMatchObject({ code: "JOB_INVALID", place: { line: 3 } });
    expect(error.message).toContain(message);
    expect(error.hint).toContain('prompt: "{{ text }}"');
  });
});

describe("a job file", () => {
  it.each([
    ["a list", `name: ${JSON.stringify(Array(160_000).fill(1))}`],
    ["lines", `name:\n${"  - x\n".repeat(130_000)}`],
    ["brackets", `name: ${"[]".repeat(210_000)}`],
    ["empty lines", "\n \n".repeat(1_000_000)],
  ])("of too many words and signs in %s is refused before it is parsed", async (_, rest) => {
    const error = await fail(small(rest));
    expect(error).toMatchObject({ code: "JOB_INVALID", place: { file: "job.yaml" } });
    expect(error.message).toContain("over 300,000 words and signs of YAML");
    expect(error.hint).toBe("rows belong into input files");
  });

  it("may be as long as its limit, and have very many keys", async () => {
    const names = Array.from({ length: 5000 }, (_, at) => `name${at}: x`);
    const comment = `# ${"x".repeat(limits.maxJobFileBytes / 2)}`;
    const { job } = await load(small(`env:\n  ${names.join("\n  ")}\n${comment}`));
    expect(Object.keys(job.env)).toHaveLength(5000);
  });

  it("may list 100,000 labels", async () => {
    const labels = Array.from({ length: 100_000 }, (_, at) => `      - label${at}`);
    const schema = ["prompts:", "  a:", "    prompt: x", "    schema:", "     enum:", ...labels];
    const { job } = await load(`input: a.jsonl\nmodel: { engine: fake }\n${schema.join("\n")}\n`);
    expect(job.prompts!.a!.schema!.enum).toHaveLength(100_000);
  });

  it.each(["env: {a: x, b: x, a: x}", "env:\n  a: x\n  'a': x", "input: x"])(
    "has each key once: %j",
    async (rest) => {
      const error = await fail(small(rest));
      expect(error).toMatchObject({ code: "JOB_INVALID" });
      expect(error.message).toMatch(/(a|input) is there twice/);
      expect(error.place.line).toBeGreaterThan(3);
    },
  );
});
