import type { Engine } from "../../engines/engine.ts";
import { describeEngine } from "../../engines/registry.ts";
import type { InferenceRequest, InferenceResponse } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { Random } from "../../foundation/random.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import { answersOf } from "../job/kinds.ts";
import type { JobSpec } from "../job/schema.ts";
import { isBatchInput } from "../openai-batch/batch-lines.ts";
import { parametersOf } from "../plan/job-prompts.ts";
import type { AnswerCache } from "./answer-cache.ts";
import { areRepeatable } from "./request-key.ts";
import { reusing } from "./reusing-engine.ts";

interface ReuseContext {
  logger: Logger;
  random: Random;
  /** Answers of earlier runs. */
  cache?: AnswerCache;
}

/**
 * The engine of a job, which gets no equal request twice unless the job says `reuse: off`. An
 * engine that reads the row's index is wrapped only for a cache.
 */
export function withReuse(
  engine: Engine,
  promptSet: PromptSet,
  job: JobSpec,
  context: ReuseContext,
): Engine {
  const isOfIndex = ["fake", "predictor", "pipeline"].includes(job.model.engine);
  // Two equal commands are meant to run twice, and each has effects.
  if (job.model.engine === "program") return engine;
  if (job.reuse === "off" || (context.cache === undefined && isOfIndex)) return engine;
  return reusing(engine, {
    model: modelIdentity(job, engine),
    accepts: (request, response) => accepts(promptSet, request, response),
    ...context,
  });
}

/** Notices about a job's `cache`: when no answer is taken from it or kept. */
export function reuseNotices(job: JobSpec): string[] {
  if (job.cache === undefined) return [];
  if (job.reuse === "off") return ["cache is not used, because reuse is off"];
  if (isBatchInput(job) || areRepeatable(parametersOf(job, 0))) return [];
  return [
    "cache is not used: answers are sampled and generation.seed is not set, " +
      "so each request gets its own",
  ];
}

function accepts(
  promptSet: PromptSet,
  request: InferenceRequest,
  response: InferenceResponse,
): boolean {
  try {
    promptSet.accept(request, response);
    return true;
  } catch {
    return false;
  }
}

function modelIdentity(job: JobSpec, { choices }: Engine): Json {
  const address = addressIdentity(describeEngine(job.model).servers?.(job.model) ?? []);
  const weights = choices?.weights ?? choices?.modelFile ?? null;
  return { model: answersOf(job).model ?? null, address, weights };
}

/** One server by its address; the order of several does not matter. */
function addressIdentity(servers: readonly string[]): Json {
  const [only = null, ...others] = servers.toSorted();
  return others.length === 0 ? only : [only, ...others];
}
