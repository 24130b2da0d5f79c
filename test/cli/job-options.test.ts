import { Command } from "commander";
import { describe, expect, it } from "vitest";
import { declareJobOptions, jobFromOptions, jobKeysHelp } from "../../src/cli/job-options.ts";
import { jobKeys } from "../../src/run/job/keys.ts";
import { jobFolder, small } from "../run/job/job-folder.ts";

const { folder, load } = jobFolder();
const here = { environment: {}, workingDirectory: folder };

async function jobOf(...args: string[]) {
  const command = declareJobOptions(new Command("run"), here).exitOverride();
  let options: Record<string, unknown> = {};
  command.action((_, given: Record<string, unknown>) => {
    options = given;
  });
  await command.parseAsync(args, { from: "user" });
  const environment = { SLUICE_GENERATION__TOP_K: "5" };
  return (await jobFromOptions(options, { environment, workingDirectory: folder })).job;
}

describe("options that shape a job", () => {
  it("take every short flag", async () => {
    const job = await jobOf(
      ...["--input", "a.jsonl", "--input", "b.jsonl", "--model", "qwen", "--prompt", "{{ x }}"],
      ...["--base-url", "http://127.0.0.1:1/v1", "--output", "r.jsonl", "--limit", "3"],
      ...["--sample", "2", "--seed", "7", "--env", "A=1", "--env", "B"],
    );
    expect(job).toMatchObject({
      input: [{ path: `${folder}/a.jsonl` }, { path: `${folder}/b.jsonl` }],
      model: { engine: "openai", name: "qwen", baseUrl: "http://127.0.0.1:1/v1" },
      prompt: { prompt: "{{ x }}" },
      output: { path: `${folder}/r.jsonl` },
      limit: 3,
      sample: 2,
      generation: { seed: 7, topK: 5 },
      env: { A: "1", B: null },
    });
  });

  it("have one for each key, over file and environment", async () => {
    await load(small("generation: { topK: 4, topP: 0.4 }"));
    const flags = ["--generation.topK", "6", "--model.capacity=9", "--keepJournals"];
    const job = await jobOf("-c", "job.yaml", ...flags, "--set", "workers.max=2");
    expect(job).toMatchObject({
      generation: { topK: 6, topP: 0.4 },
      model: { capacity: 9 },
      keepJournals: true,
      workers: { max: 2 },
    });
  });

  it("take the job file as argument, and say what else a name is", async () => {
    await load(small("limit: 2"));
    expect(await jobOf("job.yaml", "--seed", "7")).toMatchObject({ limit: 2 });
    const twice = jobOf("job.yaml", "-c", "other.yaml");
    await expect(twice).rejects.toThrow("two job files: job.yaml and -c other.yaml");
    for (const name of ["rows.jsonl", "rows.csv.gz", "s3://bucket/rows.parquet"]) {
      await expect(jobOf(name)).rejects.toMatchObject({
        code: "USAGE",
        message: expect.stringContaining(`${name} is a file of rows, not a job file`),
        hint: expect.stringContaining(`sluice run --input ${name} --model NAME`),
      });
    }
    const asFolder = jobOf("-c", ".");
    await expect(asFolder).rejects.toMatchObject({ hint: expect.stringContaining("resume .") });
  });

  it("take the other names of generation, one by one and as a text", async () => {
    await load(small());
    const flags = ["--generation.max_new_tokens", "9", "--generation.do_sample"];
    const job = await jobOf("-c", "job.yaml", "--generation", "min_p=0.1,stop=END", ...flags);
    const generation = { maxNewTokens: 9, doSample: true, minP: 0.1, topK: 5, stop: ["END"] };
    expect(job.generation).toEqual({ ...generation, returnFullText: false });
    expect(jobKeysHelp(1000)).toContain("[or: max_new_tokens]");
  });

  it("go on with a list of a flag that was given before", async () => {
    await load(small());
    const more = ["--generation", "min_p=0.1,do_sample=True", "--generation", "temperature=0.4"];
    const emptied = ["--truncate_features", "a,b", "--truncate_features", "c"];
    const job = await jobOf("-c", "job.yaml", ...more, ...emptied);
    expect(job.generation).toMatchObject({ minP: 0.1, doSample: true, temperature: 0.4 });
    expect(job.truncateFeatures).toEqual(["a", "b", "c"]);
    const twice = ["--generation", "topP=0.5", "--generation", "topP=0.6"];
    await expect(jobOf("-c", "job.yaml", ...twice)).rejects.toThrow("each key once");
  });

  it("are all listed by --help, with default and variable", () => {
    const command = declareJobOptions(new Command("run"), here);
    let help = "";
    command.configureOutput({
      writeOut: (text) => {
        help += text;
      },
    });
    command.outputHelp();
    const missing = jobKeys().filter(({ path }) => !help.includes(`${path} <`));
    expect(missing).toEqual([]);
    const flat = jobKeysHelp(1000);
    for (const { environment, default: value } of jobKeys()) {
      if (environment !== undefined) expect(flat).toContain(`[env: ${environment}]`);
      if (value !== undefined) expect(flat).toContain(`[default: ${JSON.stringify(value)}]`);
    }
  });
});
