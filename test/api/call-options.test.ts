import { describe, expect, it } from "vitest";
import {
  abandonRetry,
  cancel,
  clean,
  dataset,
  generate,
  plan,
  results,
  resume,
  retry,
  run,
  runs,
  status,
  verify,
} from "../../src/index.ts";

const rows = dataset.from([{ text: "one" }]);
const job = { input: "rows.jsonl", model: { engine: "fake" }, prompt: "{{ text }}" };

/** Calls as a program in JavaScript writes them: nothing checks the names of options before. */
const calls: Record<string, (options: never) => unknown> = {
  run: (options) => run(job as never, options),
  plan: (options) => plan(job as never, options),
  resume: (options) => resume("out", options),
  retry: (options) => retry("out", options),
  abandonRetry: (options) => abandonRetry("out", options),
  cancel: (options) => cancel("out", options),
  clean: (options) => clean("out", options),
  status: (options) => status("out", options),
  verify: (options) => verify("out", options),
  results: (options) => results("out", options).next(),
  runs: (options) => runs(".", options).next(),
  map: (options) => rows.map((row) => row, options),
  mapBatches: (options) => rows.mapBatches((batch) => batch, options),
  sample: (options) => rows.sample(1, options),
  shuffle: (options) => rows.shuffle(options),
  generate: (options) => generate(options),
  parquet: (options) => dataset.parquet("rows.parquet", options),
  "reading a dataset": (options) => rows.take(1, options),
  "the schema of a dataset": (options) => rows.schema(options),
  "a run of a dataset": (options) => rows.run(options),
  "the plan of a dataset": (options) => rows.plan(options),
  "the job of a dataset": (options) => rows.job(options),
};

async function refusal(call: (options: never) => unknown, options: unknown) {
  try {
    return await call(options as never);
  } catch (error) {
    return error;
  }
}

describe("options of calls", () => {
  for (const [name, call] of Object.entries(calls)) {
    it(`refuses those that ${name} does not have, and what is no object`, async () => {
      expect(await refusal(call, { nonsense: 1 })).toMatchObject({
        code: "OPTION_UNKNOWN",
        message: expect.stringContaining(`${name}: nonsense; it has `),
      });
      expect(await refusal(call, 7)).toMatchObject({
        code: "USAGE",
        message: expect.stringContaining(`${name}: the options are not an object: 7`),
      });
    });
  }

  it("names the option that was meant", async () => {
    const options = { workingDirectori: ".", overwrite: true };
    expect(await refusal(calls.run!, options)).toMatchObject({
      message: expect.stringContaining("run: workingDirectori; did you mean workingDirectory?"),
    });
  });

  it("refuses a job that is none", async () => {
    for (const none of [null, undefined, 7, []]) {
      expect(await refusal(() => run(none as never), {})).toMatchObject({
        code: "JOB_INVALID",
        message: expect.stringContaining("a job is an object, or the path of a job file"),
      });
    }
  });
});
