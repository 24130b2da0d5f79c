import type { ExactJson } from "../../foundation/exact-json.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import type { HandlerCalls, Predictor, PredictorContext, PredictorItem } from "./predictor.ts";

/**
 * The context of a TorchServe handler, as far as it exists here. The calls about requests and
 * replies are there while a batch of an archive is computed.
 */
export interface HandlerContext extends Partial<HandlerCalls> {
  /** Of a handler in an archive, its whole manifest. */
  manifest: { model: { modelName: string } };
  /** The YAML of an archive. */
  model_yaml_config: JsonObject;
  system_properties: {
    /** Folder of the module. */
    model_dir: string;
    /**
     * 0 if the replica has a GPU, the only one that it sees; of a handler in an archive the number
     * of its worker's GPU; else null.
     */
    gpu_id: number | null;
    /** Most rows of a batch. */
    batch_size: number;
  };
}

/** `options` of a handler that comes from an archive. */
interface ArchiveOptions {
  manifest: HandlerContext["manifest"];
  config: JsonObject;
  gpuId: number;
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
  let loaded: HandlerContext;
  return {
    async load(context) {
      loaded = handlerContext(context);
      await handler.initialize?.(loaded);
    },
    async predict(batch, { requests: calls }) {
      const requests = batch.map(requestOf);
      const context = { ...loaded, ...calls };
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
  const { manifest, config, gpuId } = loaded.options as Partial<ArchiveOptions>;
  return {
    manifest: manifest ?? { model: { modelName: loaded.modelName } },
    model_yaml_config: config ?? {},
    system_properties: {
      model_dir: loaded.directory,
      gpu_id: gpuId ?? (loaded.device === undefined ? null : 0),
      batch_size: loaded.maxBatchRows,
    },
  };
}

function requestOf({ prompt, messages, row }: PredictorItem): HandlerRequest {
  if (prompt !== undefined) return { data: prompt };
  return { body: messages === undefined ? row : { messages: messages as unknown as Json } };
}
