import type { Command } from "commander";
import { SluiceError } from "../../foundation/errors.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { CliIo, CommandCall } from "../io.ts";
import { type JobOptionValues, jobFromOptions, joined } from "../job-options.ts";
import { declareRunOptions, type ReadJob, type RunFlags, run } from "./run.ts";

/** Options of Axolotl's command with other names in Sluice. */
interface InferenceOptions {
  base_model?: string;
  base_model_config?: string;
  dataset_prepared_path?: string;
  generation_config?: string;
  output_dir?: string;
  accelerate?: string;
}

type AllOptions = InferenceOptions & RunFlags & JobOptionValues;

/** The options, and the equivalent ones of `sluice run`. */
const sameOptions = [
  ["base_model", "model"],
  ["generation_config", "generation"],
  ["dataset_prepared_path", "preparedDir"],
  ["output_dir", "output"],
] as const;

const help = `
Flags of Axolotl's command that are flags of sluice run too: --dataset, --sequence_len,
--truncate_features, --report axolotl. docs/axolotl.md has all of them, and the keys of -c that are
read.`;

/** `sluice inference batch`: `sluice run` with Axolotl's config and the names of its flags. */
export function register(command: Command, io: CliIo, { args }: CommandCall): void {
  const batch = command
    .command("batch")
    .description("Answer every row of datasets, with a config of Axolotl.");
  declareRunOptions(batch, io, args)
    .option("--base_model <name>", "same as --model")
    .option("--base_model_config <name>", "accepted without effect: a GGUF file contains its own")
    .option("--generation_config <key=value,…>", "same as --generation", joined)
    .option("--dataset_prepared_path <folder>", "same as --preparedDir")
    .option("--output_dir <folder>", "same as --output")
    .option("--accelerate <file>", "gpu_ids, num_processes and use_cpu of accelerate config")
    .addHelpText("after", help)
    .action((_, options: AllOptions) => run(withOwnNames(options), io, readJob));
}

/** The options under the names of `sluice run`. */
function withOwnNames(options: AllOptions): RunFlags & JobOptionValues {
  const named: Record<string, unknown> = { ...options };
  for (const [theirs, own] of sameOptions) {
    if (options[theirs] === undefined) continue;
    if (named[own] !== undefined && named[own] !== options[theirs]) {
      throw new SluiceError("USAGE", `--${theirs} and --${own} say the same`, {
        hint: "give one of them",
      });
    }
    named[own] = options[theirs];
  }
  return named as RunFlags & JobOptionValues;
}

const readJob: ReadJob = async (options: AllOptions, io, notice) => {
  const { configNotice, translateConfig } = await import("../../run/axolotl/config.ts");
  const { job, originOf } = await jobFromOptions(options, io, (config) => {
    const { file, notices } = translateConfig(config);
    for (const message of notices) notice(message);
    return file;
  });
  const { base_model: model, base_model_config: config, accelerate } = options;
  if (config !== undefined && config !== model) notice(configNotice(config));
  // Axolotl strips a model's answers; here a job must ask for that.
  const stripWhitespace = job.output.stripWhitespace ?? true;
  const stripped = { ...job, output: { ...job.output, stripWhitespace } };
  return {
    job: accelerate === undefined ? stripped : await placed(stripped, accelerate, io, notice),
    originOf,
  };
};

/** The job at the place that the file of `accelerate config` wants. */
async function placed(
  job: JobSpec,
  file: string,
  io: CliIo,
  notice: (message: string) => void,
): Promise<JobSpec> {
  const { readAccelerateConfig, withAccelerate } = await import("../../run/axolotl/config.ts");
  const { readJobFile } = await import("../../run/job/job-file.ts");
  const { value } = await readJobFile(file, io.environment, io.workingDirectory);
  const config = readAccelerateConfig(value, file);
  for (const message of config.notices) notice(message);
  return withAccelerate(job, config);
}
