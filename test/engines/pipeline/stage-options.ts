import { modelOptions } from "../../../src/engines/model-options.ts";
import type { PipelineModelOptions } from "../../../src/engines/pipeline/options.ts";

/** The functions of stages, as a program has them, and the stages that name them. */
export class Program {
  readonly functions: unknown[] = [];
  readonly stages: object[] = [];

  stage(kind: string, code: unknown, options: object = {}): this {
    const at = this.functions.push(code) - 1;
    const closure = { at, name: "", sha256: "0" };
    this.stages.push({ kind, closure, ...options });
    return this;
  }

  options(changes: object = {}): PipelineModelOptions {
    return pipelineOptions(this.stages, changes);
  }
}

export function pipelineOptions(stages: object[], changes: object = {}): PipelineModelOptions {
  const parsed = modelOptions.parse({ engine: "pipeline", stages, ...changes });
  return parsed as PipelineModelOptions;
}
