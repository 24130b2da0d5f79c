import type { ExactJson } from "../../foundation/exact-json.ts";
import type { Json } from "../../foundation/json.ts";
import type { Predictor, PredictorContext, PredictorItem } from "./predictor.ts";

/** The context of a TorchServe handler, as far as it exists here. */
export interface HandlerContext {
  manifest: { model: { modelName: string } };
  system_properties: {
    /** Folder of the module. */
    model_dir: string;
    /** 0 if the replica has a GPU, the only one that it sees; else null. */
    gpu_id: number | null;
    /** Most rows of a batch. */
    batch_size: number;
  };
}

/** One request in a handler's form: a rendered prompt as `data`, a row as `body`. */
export type HandlerRequest = { data: Json } | { body: ExactJson };

type Step = (input: unknown, context: HandlerContext) => unknown;

/** A handler with TorchServe's life cycle. An own `handle` replaces the three steps. */
export interface TorchServeHandler {
  initialize?(context: HandlerContext): unknown;
  preprocess?: Step;
  inference?: Step;
  postprocess?: Step;
  handle?(requests: readonly HandlerRequest[], context: HandlerContext): unknown;
}

/** A handler with TorchServe's life cycle, as a predictor. */
export function handlerPredictor(handler: TorchServeHandler): Predictor {
  let context: HandlerContext;
  return {
    async load(loaded) {
      context = handlerContext(loaded);
      await handler.initialize?.(context);
    },
    async predict(batch) {
      const requests = batch.map(requestOf);
      if (handler.handle) return (await handler.handle(requests, context)) as never;
      let passed: unknown = requests;
      for (const step of ["preprocess", "inference", "postprocess"] as const) {
        if (handler[step]) passed = await handler[step](passed, context);
      }
      return passed as never;
    },
  };
}

function handlerContext(loaded: PredictorContext): HandlerContext {
  return {
    manifest: { model: { modelName: loaded.modelName } },
    system_properties: {
      model_dir: loaded.directory,
      gpu_id: loaded.device === undefined ? null : 0,
      batch_size: loaded.maxBatchRows,
    },
  };
}

function requestOf({ prompt, messages, row }: PredictorItem): HandlerRequest {
  if (prompt !== undefined) return { data: prompt };
  return { body: messages === undefined ? row : { messages: messages as unknown as Json } };
}
