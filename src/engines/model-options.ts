import { z } from "zod";
import { commandModel } from "./command/options.ts";
import { fakeModel } from "./fake/options.ts";
import { llamaModel } from "./llama/options.ts";
import { llamaServerModel, vllmModel } from "./managed/options.ts";
import { openaiModel } from "./openai/options.ts";
import { openvinoModel } from "./openvino/options.ts";
import { pipelineModelOf } from "./pipeline/options.ts";
import { predictorModel } from "./predictor/options.ts";
import { programModel } from "./program/options.ts";
import { transformersModel } from "./transformers/options.ts";

const single = [
  llamaModel,
  openaiModel,
  llamaServerModel,
  vllmModel,
  openvinoModel,
  commandModel,
  predictorModel,
  transformersModel,
  fakeModel,
] as const;

/** A model that a stage of a pipeline may use. */
const stageModel = z.discriminatedUnion("engine", single);

/** The model of a job: its engine, its weights, and its settings. */
export const modelOptions = z.discriminatedUnion("engine", [
  ...single,
  programModel,
  pipelineModelOf(stageModel),
]);

export type ModelOptions = z.output<typeof modelOptions>;
