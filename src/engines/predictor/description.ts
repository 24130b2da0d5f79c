import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import type { EngineDescription } from "../engine-description.ts";
import { fullSupport, type ParameterSupport } from "../parameter-support.ts";
import { withReplicas } from "../replicas.ts";
import type { PredictorModelOptions } from "./options.ts";

/** A predictor reads the parameters of each item, and gives one answer. */
const support: ParameterSupport = Object.freeze({
  ...fullSupport,
  numBeams: true,
  lengthPenalty: true,
  earlyStopping: true,
  numReturnSequences: "leave it out: a predictor gives one result for each prompt",
  logprobs: "leave it out: a predictor's results have no place for them",
});

export const predictorDescription: EngineDescription<PredictorModelOptions> = {
  open: async (options, context) => (await import("./engine.ts")).openPredictor(options, context),
  support: () => support,
  cutsNone: "set onTooLong: fail: only the predictor knows how long a prompt is",
  keepsPrefixes: false,
  readsIndex: true,
  executes: ({ module }) => [module],
  ...withReplicas,
  withAbsolutePaths: (options, absolute) => ({
    ...options,
    module: absolute(options.module, "model", "module"),
  }),
  identified: async (options) => ({ ...options, moduleSha256: await moduleSha256(options) }),
};

async function moduleSha256({ module, ...known }: PredictorModelOptions): Promise<string> {
  try {
    return sha256Hex(await readFile(module));
  } catch (thrown) {
    // It is where the workers are, and each of them compares it.
    if (known.moduleSha256 !== undefined) return known.moduleSha256;
    const { message } = thrown as Error;
    throw new SluiceError("PREDICTOR_UNUSABLE", `${basename(module)}: ${message}`, {
      file: module,
      field: "model.module",
      hint: "name the module in model.module, from the folder of the job file",
      cause: thrown,
    });
  }
}
