import type { Command } from "commander";
import { absoluteLocation } from "../../data/storage/open.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { locateRun } from "../../run/directory/locate.ts";
import type { CliIo, CommandCall } from "../io.ts";
import type { JobOptionValues } from "../job-options.ts";
import { collect } from "../run-call.ts";
import { declareRunOptions, type RunFlags, run } from "./run.ts";

interface BatchOptions {
  inputFile?: string[];
  outputFile?: string;
  errorFile?: string;
  servedModelName?: string[];
  set?: readonly string[];
}

/** `sluice run-batch`: `sluice run` with the options of vLLM's command with that name. */
export function register(command: Command, io: CliIo, { args }: CommandCall): void {
  declareRunOptions(command, io, args)
    .option("-i, --input-file <path>", "file of requests, one on each line; - = stdin", collect)
    .option("-o, --output-file <path>", "file of responses, in the order of the requests")
    .option("--error-file <path>", "write failed lines here instead of among the responses")
    .option(
      "--served-model-name <name>",
      "a model that lines may name besides --model; * = any",
      collect,
    )
    .action((_, options: BatchOptions & RunFlags & JobOptionValues) =>
      run({ ...options, ...batchJob(options, io) }, io),
    );
}

/** Options of vLLM's command, and the equivalent ones of `sluice run`. */
const sameOptions = [
  ["inputFile", "--input-file", "input"],
  ["outputFile", "--output-file", "output"],
  ["errorFile", "--error-file", "output.errorFile"],
] as const;

function batchJob(options: BatchOptions & JobOptionValues, io: CliIo): JobOptionValues {
  for (const [name, flag, own] of sameOptions) {
    if (options[name] === undefined || options[own] === undefined) continue;
    throw new SluiceError("USAGE", `${flag} and --${own} say the same`, {
      hint: "give one of them",
    });
  }
  const { inputFile = options.input, outputFile = options.output } = options;
  const { SLUICE_CONFIG: config, SLUICE_INPUT: input } = io.environment;
  const isNamed = [inputFile, options.config, config, input].some(Boolean);
  if (!isNamed) throw notGiven("-i, --input-file");
  if (typeof outputFile !== "string") throw notGiven("-o, --output-file");
  if (locateRun(absoluteLocation(io.workingDirectory, outputFile)).mergedFile === null) {
    throw new SluiceError("USAGE", `--output-file ${outputFile} must end in .jsonl`, {
      hint: "its run directory lies beside it, under the same name with .sluice",
    });
  }
  const { errorFile, servedModelName, set = [] } = options;
  const inputs = Array.isArray(inputFile) ? inputFile.length : 0;
  const ofInput = {
    ...(inputs === 0 ? {} : { format: "openai-batch" }),
    ...(servedModelName && { servedModelName: JSON.stringify(servedModelName) }),
  };
  // Several inputs are a list, with entries by number.
  const places = inputs > 1 ? Array.from({ length: inputs }, (_, at) => `input.${at}`) : ["input"];
  const inputSets = places.flatMap((place) =>
    Object.entries(ofInput).map(([key, value]) => `${place}.${key}=${value}`),
  );
  return {
    input: inputFile,
    output: outputFile,
    "output.format": "openai-batch",
    ...(errorFile === undefined ? {} : { "output.errorFile": errorFile }),
    set: [...inputSets, ...set],
  };
}

function notGiven(flag: string): SluiceError {
  return new SluiceError("USAGE", `option ${flag} is missing`, {
    hint: "sluice run-batch -i requests.jsonl -o responses.jsonl --model NAME",
  });
}
