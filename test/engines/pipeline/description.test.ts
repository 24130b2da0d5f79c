import { describe, expect, it } from "vitest";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { describeEngine } from "../../../src/engines/registry.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { rejectionOf } from "../engine-context.ts";
import { moduleFolder } from "../predictor/module-folder.ts";

const moduleFile = moduleFolder();
const pipeline = (stages: object[], changes: object = {}) =>
  modelOptions.parse({ engine: "pipeline", stages, ...changes });

const closure = { at: 0, name: "", sha256: "0" };
const server = { engine: "openai", name: "m", baseUrl: "http://one.example/v1", apiKeyEnv: "KEY" };

describe("what is known of a pipeline", () => {
  it("is what its models need: servers and variables of their environment", () => {
    const model = pipeline([{ kind: "generate", model: server, prompt: "p" }]);
    const known = describeEngine(model);
    expect(known.servers?.(model)).toEqual(["http://one.example/v1"]);
    expect(() => known.assertEnvironment?.(model, {})).toThrow("KEY");
    expect(() => known.assertEnvironment?.(model, { KEY: "x" })).not.toThrow();
  });

  it("has shards hold whole batches of every stage", () => {
    const multipleOf = (...sizes: number[]) => {
      const model = pipeline(
        sizes.map((batchSize) => ({ kind: "mapBatches", closure, batchSize })),
      );
      return describeEngine(model).taskRowsMultiple?.(model);
    };
    expect(multipleOf(32)).toBe(32);
    expect(multipleOf(4, 6)).toBe(12);
    expect(multipleOf()).toBe(1);
    expect(multipleOf(997, 1009)).toBe(1009);
  });

  it("has requests hold whole batches of every stage whose batches decide results", () => {
    const any = (batchSize: number) => ({ kind: "mapBatches", closure, batchSize, rows: "any" });
    const model = pipeline([any(2), any(3), { kind: "mapBatches", closure, batchSize: 9973 }]);
    const known = describeEngine(model);
    expect(known.rowsTogether?.(model)).toBe(6);
    expect(known.taskRowsMultiple?.(model)).toBe(6);
    const large = { engine: "pipeline", stages: [any(997), any(1009)] };
    expect(modelOptions.safeParse(large).error?.issues[0]?.message).toMatch(/more than 65536 rows/);
  });

  it("gives its stages what a worker has of the machine, and says where that is short", () => {
    const stages = [{ kind: "mapBatches", module: "/m.ts", numCpus: 5, concurrency: 8 }];
    const model = pipeline(stages, { resources: { cpus: 16 } });
    const known = describeEngine(model);
    const declared = known.sharedAmong!(model, 1, 2, 1e9);
    expect(declared).toMatchObject({ resources: { cpus: 16, memoryBytes: 1e9 } });
    expect(known.notices?.(declared).join()).toContain("runs with 3 replicas");
    const own = known.sharedAmong!(pipeline(stages), 1, 10);
    expect(known.notices?.(own).join()).toContain("runs with 2 replicas");
  });

  it("has the digest of each module, so that another one is another run", async () => {
    const source = "export default (row) => row;";
    const model = pipeline([{ kind: "map", module: moduleFile(source) }]);
    const identified = await describeEngine(model).identified!(model);
    expect(identified).toMatchObject({ stages: [{ moduleSha256: sha256Hex(source) }] });
    const missing = pipeline([{ kind: "map", module: "/nowhere/m.ts" }]);
    const error = await rejectionOf(describeEngine(missing).identified!(missing));
    expect(error).toMatchObject({ code: "STAGE_UNUSABLE" });
  });

  it("has paths of modules and models made absolute", () => {
    const predictor = { engine: "predictor", module: "./predict.ts" };
    const model = pipeline([
      { kind: "map", module: "./clean.ts" },
      { kind: "generate", model: predictor },
    ]);
    const absolute = describeEngine(model).withAbsolutePaths!(model, (path) => `/job/${path}`);
    expect(absolute).toMatchObject({
      stages: [{ module: "/job/./clean.ts" }, { model: { module: "/job/./predict.ts" } }],
    });
  });

  it("is needed whole: a stage lacks nothing that it works with", () => {
    const problems = (stage: object) =>
      modelOptions.safeParse({ engine: "pipeline", stages: [stage] }).error?.issues[0]?.message;
    expect(problems({ kind: "map" })).toBe("a stage of kind map needs a module");
    expect(problems({ kind: "generate", prompt: "p" })).toContain("needs a model");
    expect(problems({ kind: "select", columns: { a: "b" } })).toContain("a list of names");
    expect(problems({ kind: "generate", model: { engine: "fake", latencyMs: "x" } })).toBeDefined();
    expect(problems({ kind: "mapBatches", module: "m.ts", batchsize: 1 })).toContain("batchsize");
  });
});
