import { describe, expect, it } from "vitest";
import { answersOf, differingAnswers, settingKinds } from "../../../src/run/job/kinds.ts";
import { jobFolder, small } from "./job-folder.ts";

const { load } = jobFolder();
const text = small("shard: { rows: 10 }\nworkers: { max: 3 }\ngeneration: { topP: 0.5 }");

describe("kinds of settings", () => {
  it("are inherited, and marked inside where they differ", async () => {
    const { job } = await load(text);
    const kinds = new Map(settingKinds(job).map(({ path, kind }) => [path.join("."), kind]));
    expect(Object.fromEntries(kinds)).toMatchObject({
      "input.0.path": "answers",
      "model.engine": "answers",
      "model.capacity": "operation",
      "model.seed": "answers",
      "prompt.prompt": "answers",
      "generation.topP": "answers",
      "output.path": "layout",
      "output.field": "answers",
      "shard.rows": "layout",
      "workers.max": "operation",
      keepJournals: "operation",
    });
  });

  it("tell what decides the answers", async () => {
    const { job } = await load(text);
    expect(answersOf(job)).toMatchObject({
      model: { engine: "fake", name: "fake", seed: 0 },
      generation: { topP: 0.5 },
    });
    expect(answersOf(job)).not.toHaveProperty("workers");
    expect(answersOf(job)).not.toHaveProperty("shard");
  });
});

describe("differingAnswers", () => {
  const differing = async (sets: string[], before: string[] = []) => {
    const stored = (await load(text, { sets: before })).job;
    return differingAnswers(stored, (await load(text, { sets })).job);
  };

  it("names the keys that change answers, those that came and those that went", async () => {
    const sets = ["generation.topP=1", "prompt.system=Hi", "output.path=/x", "workers.max=9"];
    expect(await differing(sets)).toEqual(["generation.topP", "prompt.system"]);
    expect(await differing([], ["limit=3"])).toEqual(["limit"]);
    expect(await differing(["generation.stop=[a]"], ["generation.stop=[a, b]"])).toEqual([
      "generation.stop",
    ]);
  });

  it("sees another engine", async () => {
    const model = "model={engine: openai, name: fake, maxInFlight: 2}";
    expect(await differing([model])).toEqual(["model.engine", "model.seed"]);
  });

  it("takes a seed that was drawn for the one of a job that leaves it open", async () => {
    expect(await differing([], ["generation.seed=9"])).toEqual([]);
    expect(await differing(["generation.seed=8"], ["generation.seed=9"])).toEqual([
      "generation.seed",
    ]);
  });

  it("does not mind how a job was written", async () => {
    const list = text.replace("rows.jsonl", "[{path: rows.jsonl}]");
    const stored = (await load(text)).job;
    const current = (await load(list, {}, "other.yaml")).job;
    expect(differingAnswers(JSON.parse(JSON.stringify(stored)), current)).toEqual([]);
  });
});
