import { describe, expect, it } from "vitest";
import { environmentName, jobKeys } from "../../../src/run/job/keys.ts";
import { jobFolder, small } from "./job-folder.ts";

const { load, fail } = jobFolder();

describe("variables named SLUICE_…", () => {
  it("set any key that has a name of its own", async () => {
    const environment = {
      SLUICE_MODEL__LATENCY_MS: "{mean: 5}",
      SLUICE_KEEP_JOURNALS: "true",
      SLUICE_PROMPTS: "{a: x, b: {prompt: y, api: completion}}",
      SLUICE_WORKERS__MEMORY: "120G",
    };
    const { job } = await load(small(), { environment });
    expect(job).toMatchObject({
      model: { latencyMs: { mean: 5 } },
      keepJournals: true,
      prompts: { a: { prompt: "x" }, b: { prompt: "y", api: "completion" } },
      workers: { memory: "120G" },
    });
  });

  it("take --model's short form and an output's path", async () => {
    const environment = { SLUICE_MODEL: "openai:q", SLUICE_OUTPUT: "/r" };
    const { job } = await load(small(), { environment });
    expect(job.model).toMatchObject({ engine: "openai", name: "q" });
    expect(job.output.path).toBe("/r");
  });

  it("keep what else the file says of the output, whatever the path begins with", async () => {
    const environment = { SLUICE_OUTPUT: "{stem}.jsonl" };
    const { job } = await load(small("output: { field: mood }"), { environment });
    expect(job.output).toMatchObject({
      field: "mood",
      path: expect.stringMatching(/\{stem\}.jsonl$/),
    });
  });

  it("count as not set when they are empty", async () => {
    expect((await load(small(), { environment: { SLUICE_LIMIT: "" } })).job.limit).toBeUndefined();
  });

  it("are refused when they set nothing, with the nearest", async () => {
    const error = await fail(small(), { environment: { SLUICE_TEMPERATURE: "1" } });
    expect(error.code).toBe("OPTION_UNKNOWN");
    expect(error.message).toContain("did you mean SLUICE_GENERATION__TEMPERATURE?");
  });

  it("are left alone when Sluice or Kubernetes uses them", async () => {
    const environment = {
      SLUICE_HOME: "/x",
      SLUICE_SERVICE_HOST: "10.0.0.1",
      SLUICE_SERVICE_PORT_HTTP: "80",
      SLUICE_PORT: "tcp://10.0.0.1:80",
      SLUICE_PORT_80_TCP_ADDR: "10.0.0.1",
      SLUICE_TASK_INDEX: "3",
      SLUICE_RAY_ACTOR: "a",
      SLUICE_RAY_NODE: "n",
    };
    expect((await load(small(), { environment })).job.limit).toBeUndefined();
  });

  it("name the variable in what is wrong", async () => {
    const error = await fail(small(), { environment: { SLUICE_LIMIT: "many" } });
    expect(error.message).toContain('SLUICE_LIMIT: must be a number, not "many"');
  });

  it("have different names for different keys", () => {
    const names = jobKeys().flatMap(({ environment }) => environment ?? []);
    expect(names.length).toBeGreaterThan(50);
    expect(new Set(names).size).toBe(names.length);
    expect(environmentName("generation.maxNewTokens")).toBe("SLUICE_GENERATION__MAX_NEW_TOKENS");
  });
});

describe("--set", () => {
  it("reaches names of one's own and entries of lists", async () => {
    const text = small()
      .replace("rows.jsonl", "[/a, /b]")
      .replace(/input: .*/, "input: [{path: /a}, {path: /b}]");
    const { job } = await load(text, {
      sets: ["input.1.path=/c", "prompts.x=Hi", "prompts.x.api=completion", "env.A=1"],
    });
    expect(job.input.map(({ path }) => path)).toEqual(["/a", "/c"]);
    expect(job.prompts).toEqual({ x: { prompt: "Hi", api: "completion", onTooLong: "fail" } });
    expect(job.env).toEqual({ A: "1" });
  });

  it("gives an object to a key that was one text", async () => {
    const { job } = await load(small(), { sets: ["input.format=text", "prompt.system=Be brief"] });
    expect(job.input[0]).toMatchObject({ format: "text" });
    expect(job.prompt).toMatchObject({ prompt: "Say {{ text }}", system: "Be brief" });
  });

  it("takes a value back with null", async () => {
    const { job } = await load(small("limit: 5"), { sets: ["limit=null"] });
    expect(job.limit).toBeUndefined();
  });

  it("keeps text that looks like a number where text fits", async () => {
    const { job } = await load(small(), { sets: ["output.field=1e3", "prompt={{ x }}"] });
    expect(job.output.field).toBe("1e3");
    expect(job.prompt?.prompt).toBe("{{ x }}");
  });

  it("refuses a key that is not there, with the nearest", async () => {
    const error = await fail(small(), { sets: ["genration.temperature=1"] });
    expect(error.code).toBe("OPTION_UNKNOWN");
    expect(error.message).toContain("did you mean generation.temperature?");
  });

  it("refuses a text without a value, and one input of several", async () => {
    expect((await fail(small(), { sets: ["limit"] })).message).toContain("--set key=value");
    const two = small().replace("rows.jsonl", "[{path: /a}, {path: /b}]");
    expect((await fail(two, { sets: ["input.path=/c"] })).message).toContain("input.0.path");
    expect((await fail(two, { sets: ["__proto__.x=1"] })).code).toBe("OPTION_UNKNOWN");
  });
});
