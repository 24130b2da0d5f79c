import { describe, expect, it } from "vitest";
import { namesOfKey } from "../../../src/run/job/generation-names.ts";
import { jobFolder, small } from "./job-folder.ts";

const { load, fail } = jobFolder();
const axolotl =
  "num_return_sequences=3,repetition_penalty=1.18,max_new_tokens=500,temperature=0.5,top_p=0.5," +
  "top_k=20,do_sample=true,use_cache=false,prepend_bos=true";
const ours = {
  numReturnSequences: 3,
  repetitionPenalty: 1.18,
  maxNewTokens: 500,
  temperature: 0.5,
  topP: 0.5,
  topK: 20,
  doSample: true,
  useCache: false,
  prependBos: true,
  returnFullText: false,
};

describe("other names of generation", () => {
  it("mean ours in a job file, as a map and as a text", async () => {
    const map = axolotl.replaceAll("=", ": ").replaceAll(",", ", ");
    expect((await load(small(`generation: { ${map} }`))).job.generation).toEqual(ours);
    expect((await load(small(`generation: "${axolotl}"`))).job.generation).toEqual(ours);
    expect((await load(small(`generation:\n  stop_strings: END`))).job.generation.stop).toEqual([
      "END",
    ]);
  });

  it("mean ours in flags and variables", async () => {
    const generation = async (sources: Parameters<typeof load>[1]) =>
      (await load(small(), sources)).job.generation;
    expect(await generation({ flags: { generation: axolotl } })).toEqual(ours);
    expect(await generation({ environment: { SLUICE_GENERATION: axolotl } })).toEqual(ours);
    expect(await generation({ flags: { "generation.top_p": "0.5" } })).toMatchObject({ topP: 0.5 });
    expect(await generation({ sets: ["generation.max_length=90"] })).toMatchObject({
      maxLength: 90,
    });
    const environment = { SLUICE_GENERATION__DO_SAMPLE: "true" };
    expect(await generation({ environment })).toMatchObject({ doSample: true });
  });

  it("are overridden by a later layer, whatever name it uses", async () => {
    const { job, originOf } = await load(small("generation: { top_p: 0.1, min_p: 0.1 }"), {
      environment: { SLUICE_GENERATION__TOP_P: "0.2" },
      flags: { generation: "min_p=0.3" },
    });
    expect(job.generation).toMatchObject({ topP: 0.2, minP: 0.3 });
    expect(originOf("generation.topP").from).toBe("environment");
    expect(originOf("generation.minP")).toEqual({ from: "flag", name: "--generation minP" });
  });

  it("are refused beside ours in one layer, both being named", async () => {
    const beside = "top_p: is another name of topP, which is given too: give one of them";
    const inFile = await fail(small("generation:\n  topP: 0.1\n  top_p: 0.2"));
    expect(inFile.message).toContain(`generation.${beside}`);
    expect(inFile.place).toMatchObject({ line: 6 });
    const reversed = await fail(small("generation: { top_p: 0.1, topP: 0.2 }"));
    expect(reversed.message).toContain(beside);
    const flags = { "generation.top_p": "0.1", "generation.topP": "0.2" };
    expect((await fail(small(), { flags })).message).toContain("is another name of topP");
    const sets = ["generation=top_p=0.1,topP=0.2"];
    expect((await fail(small(), { sets })).message).toContain("is another name of topP");
  });

  it("have their line in what is wrong with them", async () => {
    const error = await fail(small("generation:\n  seed: 1\n  top_p: 2"));
    expect(error.message).toContain("generation.topP: must be at most 1");
    expect(error.place).toMatchObject({ line: 6 });
  });

  it("that nobody has are refused, with the nearest", async () => {
    const inFile = await fail(small("generation: { tempratur: 1 }"));
    expect(inFile.message).toContain("did you mean temperature?");
    const flags = { generation: "typical_p=1,num_beam=2" };
    const { message } = await fail(small(), { flags });
    expect(message).toContain("--generation typical_p: is not a key here; known: maxNewTokens,");
    expect(message).not.toContain("max_new_tokens");
    expect(message).toContain("did you mean num_beams?");
    expect((await fail(small(), { flags: { generation: "{topPP: 1}" } })).message).toContain(
      "did you mean topP?",
    );
  });

  it("are known of each key", () => {
    expect(namesOfKey(["generation", "maxNewTokens"])).toEqual(["maxNewTokens", "max_new_tokens"]);
    expect(namesOfKey(["generation", "seed"])).toEqual(["seed"]);
  });
});

describe("generation as a text", () => {
  const generation = async (text: string) =>
    (await load(small(), { flags: { generation: text } })).job.generation;

  it("takes blanks, quotes and several stops", async () => {
    const text = 'temperature = 1 , stop="a,\\n", stop=END,stop=7';
    expect(await generation(text)).toMatchObject({ temperature: 1, stop: ["a,\n", "END", "7"] });
  });

  it("changes only the keys it names", async () => {
    const sources = { flags: { generation: "topK=3" } };
    const { job } = await load(small("generation: { topP: 0.5 }"), sources);
    expect(job.generation).toMatchObject({ topP: 0.5, topK: 3 });
    const braces = { flags: { generation: "{topK: 3}" } };
    const replaced = await load(small("generation: { topP: 0.5 }"), braces);
    expect(replaced.job.generation).toEqual({ topK: 3, returnFullText: false });
  });

  it.each(["hot", "topK", "topK=1,topK=2", "topK=1;topP=2,,", "=1"])("is not %j", async (text) => {
    const { message } = await fail(small(), { flags: { generation: text } });
    expect(message).toMatch(/write it as key=value,key=value, each key once|must be a number/);
  });
});

describe("maxLength and maxNewTokens", () => {
  it("replace each other over layers, and contradict each other in one", async () => {
    const sources = { flags: { "generation.max_length": "100" } };
    const { job } = await load(small("generation: { maxNewTokens: 50, topK: 1 }"), sources);
    expect(job.generation).toEqual({ maxLength: 100, topK: 1, returnFullText: false });
    const other = { environment: { SLUICE_GENERATION: "max_new_tokens=5" } };
    const reversed = await load(small("generation: { max_length: 50 }"), other);
    expect(reversed.job.generation).toEqual({ maxNewTokens: 5, returnFullText: false });
    const error = await fail(small("generation: { max_length: 50, max_new_tokens: 5 }"));
    expect(error.message).toContain("maxLength: stands beside maxNewTokens");
    const flags = { "generation.max_length": "9", "generation.maxNewTokens": "5" };
    expect((await fail(small(), { flags })).message).toContain("stands beside maxNewTokens");
  });
});
