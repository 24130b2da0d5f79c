import { describe, expect, it } from "vitest";
import type { PredictorContext, PredictorItem } from "../../../src/engines/predictor/predictor.ts";
import {
  type HandlerContext,
  handlerPredictor,
} from "../../../src/engines/predictor/torchserve.ts";

const call = { signal: new AbortController().signal };
const loaded = {
  modelName: "m2m100",
  directory: "/models/m2m100",
  device: "cuda:0",
  maxBatchRows: 16,
  options: {},
} as unknown as PredictorContext;

const items: PredictorItem[] = [
  { row: { text: "a" }, index: 0, promptName: "row" },
  { row: { text: "b" }, index: 1, promptName: "prompt", prompt: "translate b" },
  { row: {}, index: 2, promptName: "prompt", messages: [{ role: "user", content: "hi" }] },
];

describe("handlerPredictor", () => {
  it("calls the steps in TorchServe's order, each with the context", async () => {
    const calls: unknown[] = [];
    const step = (name: string) => (input: unknown, context: HandlerContext) => {
      calls.push([name, input, context.manifest.model.modelName]);
      return `${name}ed`;
    };
    const handler = {
      initialize: (context: HandlerContext) => void calls.push(context),
      preprocess: step("preprocess"),
      inference: step("inference"),
      postprocess: (input: unknown) => [input, input, input],
    };
    const predictor = handlerPredictor(handler);
    await predictor.load?.(loaded);
    expect(await predictor.predict(items, call)).toEqual(Array(3).fill("inferenceed"));
    expect(calls).toEqual([
      {
        manifest: { model: { modelName: "m2m100" } },
        model_yaml_config: {},
        system_properties: { model_dir: "/models/m2m100", gpu_id: 0, batch_size: 16 },
      },
      [
        "preprocess",
        [
          { body: { text: "a" } },
          { data: "translate b" },
          { body: { messages: [{ role: "user", content: "hi" }] } },
        ],
        "m2m100",
      ],
      ["inference", "preprocessed", "m2m100"],
    ]);
  });

  it("gives a handler of an archive what the archive says", async () => {
    let context: HandlerContext | undefined;
    const predictor = handlerPredictor({
      initialize(given) {
        context = given;
      },
      handle: (requests) => requests,
    });
    const options = { manifest: { model: { modelName: "ko" } }, config: { a: 1 }, gpuId: 3 };
    await predictor.load?.({ ...loaded, options });
    expect(context).toMatchObject({
      manifest: options.manifest,
      model_yaml_config: { a: 1 },
      system_properties: { gpu_id: 3 },
    });
  });

  it("lets an own handle do all of it", async () => {
    const predictor = handlerPredictor({
      inference: () => expect.unreachable(),
      handle: (requests, { system_properties: { gpu_id } }) => requests.map(() => gpu_id),
    });
    await predictor.load?.({ ...loaded, device: undefined });
    expect(await predictor.predict(items, call)).toEqual([null, null, null]);
  });
});
